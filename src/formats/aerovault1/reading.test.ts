import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { VAULT_PASSWORD } from "../../../test/builders/crafted-vault.ts";
import { vaultContext } from "../../../test/builders/known-vaults.ts";
import { type Crafted1File, craftVault1, metaText } from "../../../test/builders/vault1.ts";
import { loadFixture } from "../../../test/support/fixtures.ts";
import { xorshiftBytes } from "../../../test/vectors/xorshift.ts";
import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { isTareError, TareError } from "../../base/errors.ts";
import { encodeUtf8 } from "../../base/text.ts";
import { memorySource } from "../../bytes/memory.ts";
import { openSource } from "../../open.ts";
import { mapLayout } from "../../operations/map.ts";
import { verify } from "../../operations/verify.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { openAerovault1 } from "./read.ts";
import type { Vault1Archive } from "./vault.ts";

const engine = portableEngine();
const SHAPED = loadFixture("aerovault1-sealed", "shaped");
const PASSWORD = "v1-shared-pass";

function open(bytes: Bytes, password: string | undefined = VAULT_PASSWORD): Promise<Vault1Archive> {
  return openAerovault1(memorySource(bytes, "old"), vaultContext(engine, password));
}

async function codeOf(action: () => Promise<unknown>): Promise<unknown> {
  const outcome: unknown = await action().catch((error: unknown) => error);
  return isTareError(outcome) ? outcome.code : outcome;
}

const readAll = async (archive: Vault1Archive, path: string): Promise<Bytes> => {
  const source = archive.entry(path).source();
  return source.read(0, source.byteLength);
};

const noise = (byteLength: number, seed = 5n): Bytes => xorshiftBytes(byteLength, seed);
const TEXT = encodeUtf8("the quick brown fox ".repeat(9000));
const FILES: readonly Crafted1File[] = [
  { path: "docs/", compress: "stored" },
  { path: "docs/a.txt", bytes: TEXT },
  { path: "noise.bin", bytes: noise(70_001), compress: "stored", version: 1 },
  { path: "crc.txt", bytes: TEXT.slice(0, 5000), version: 1 },
  { path: "empty", bytes: new Uint8Array(0) },
  { path: "ünï.txt", bytes: encodeUtf8("x"), compress: "stored" },
];

describe("a ZIP in the shape of version 1, by the crate that wrote them", () => {
  it("is recognised, and listed without a password and without the meta entry", async () => {
    const { container, format } = await openSource(memorySource(SHAPED, "x"), { engine });
    expect(format.id).toBe("aerovault1");
    if (container.kind !== "archive") return expect.fail("is an archive");
    expect(container.entries.map(({ path, type, size }) => `${path} ${type} ${size}`)).toEqual([
      "note.txt file 15",
      "words.txt file 20000",
      "noise.bin file 5000",
      "empty.dat file 0",
      "ünïcode.txt file 1",
    ]);
    expect(container.entries.map(({ modified }) => modified)).toEqual(Array(5).fill(undefined));
  });

  it("reads AE-1 and AE-2", async () => {
    const archive = await open(SHAPED, PASSWORD);
    const digests = await Promise.all(
      archive.entries.map(async ({ path }) =>
        createHash("sha256")
          .update(await readAll(archive, path))
          .digest("hex")
          .slice(0, 8),
      ),
    );
    expect(digests).toEqual(["ec6a86d2", "980b1352", "b41c5106", "e3b0c442", "0bfe935e"]);
    const opened = await openSource(memorySource(SHAPED, "old"), {
      engine,
      password: async () => encodeUtf8(PASSWORD),
    });
    const report = await verify(opened, { level: "full", engine });
    expect(report.findings).toMatchObject([{ code: "integrity/aerovault1.unproven", severity: "note" }]);
    expect(report.checked).toMatchObject({ files: 5, bytes: 25_016 });
  });

  it("distinguishes a wrong password from none, and asks once for all files", async () => {
    let asked = 0;
    const password = async (): Promise<Bytes> => {
      asked++;
      return encodeUtf8(PASSWORD);
    };
    const archive = await openAerovault1(memorySource(SHAPED, "old"), { engine, limits: {}, password });
    expect(asked).toBe(0);
    await Promise.all(["note.txt", "noise.bin", "words.txt"].map((path) => readAll(archive, path)));
    expect(asked).toBe(1);
    const wrong = await open(SHAPED, "v1-shared-Pass");
    expect(await codeOf(() => readAll(wrong, "note.txt"))).toBe("usage/password.wrong");
    const none = await openAerovault1(memorySource(SHAPED, "old"), { engine, limits: {} });
    expect(await codeOf(() => readAll(none, "note.txt"))).toBe("usage/password.missing");
  });

  it("answers every damaged byte with the right bytes or a located error", async () => {
    const right = new Map<string, Bytes>();
    const whole = await open(SHAPED, PASSWORD);
    for (const { path } of whole.entries) right.set(path, (await readAll(whole, path)).slice());
    const damages: Bytes[] = [];
    for (let at = 0; at < SHAPED.byteLength; at += at > 9400 || at < 300 ? 3 : 97) {
      damages.push(SHAPED.map((byte, i) => (i === at ? byte ^ 0x41 : byte)));
    }
    for (const length of [0, 4, 21, 22, 100, 9800, SHAPED.byteLength - 1]) damages.push(SHAPED.slice(0, length));
    for (const [i, bytes] of damages.entries()) {
      try {
        const archive = await open(bytes, PASSWORD);
        for (const { path, type } of archive.entries) {
          if (type === "directory") continue;
          const found = await readAll(archive, path);
          // A name can be changed without the password; the bytes cannot.
          expect(
            [...right.values()].some((known) => Buffer.compare(known, found) === 0),
            `damage ${i}`,
          ).toBe(true);
        }
      } catch (error) {
        expect(error, `damage ${i}`).toBeInstanceOf(TareError);
        expect((error as TareError).at.offset, `damage ${i}: ${(error as TareError).message}`).toEqual(
          expect.any(Number),
        );
      }
    }
  });
});

describe("openAerovault1()", () => {
  it.each(["always", undefined] as const)("reads files in every form, ZIP64: %s", async (zip64) => {
    const archive = await open(await craftVault1(FILES, zip64 === undefined ? {} : { zip64 }));
    expect(archive.entries.map(({ path, type }) => `${path} ${type}`)).toEqual([
      "docs directory",
      "docs/a.txt file",
      "noise.bin file",
      "crc.txt file",
      "empty file",
      "ünï.txt file",
    ]);
    expect(Buffer.compare(await readAll(archive, "docs/a.txt"), TEXT)).toBe(0);
    expect(Buffer.compare(await readAll(archive, "noise.bin"), noise(70_001))).toBe(0);
    expect((await readAll(archive, "empty")).byteLength).toBe(0);
    for (const path of ["docs/a.txt", "noise.bin"]) {
      const file = archive.entry(path).source();
      const expected = path === "noise.bin" ? noise(70_001) : TEXT;
      for (const [from, length] of [
        [0, 1],
        [15, 2],
        [16, 16],
        [65_535, 3],
        [file.byteLength - 1, 1],
      ] as const) {
        expect(Buffer.compare(await file.read(from, length), expected.slice(from, from + length))).toBe(0);
      }
      const pieces: Bytes[] = [];
      for await (const piece of file.stream(100, { byteLength: 60_000 })) pieces.push(piece.slice());
      expect(Buffer.compare(concatBytes(pieces), expected.slice(100, 60_100))).toBe(0);
    }
    expect(() => archive.entry("docs").source()).toThrow(expect.objectContaining({ code: "usage/not-a-file" }));
    await archive.close();
  });

  it("reads long deflated files forward without holding them, and back again", async () => {
    const context = { ...vaultContext(engine, VAULT_PASSWORD), limits: { aerovault1: { keptBytes: 1000 } } };
    const archive = await openAerovault1(memorySource(await craftVault1(FILES), "old"), context);
    const file = archive.entry("docs/a.txt").source();
    const ranges = [
      [5, 10],
      [15, 70_000],
      [100_000, 50],
      [3, 4],
      [179_999, 1],
    ] as const;
    const found = await Promise.all(ranges.map(([from, length]) => file.read(from, length)));
    for (const [i, [from, length]] of ranges.entries()) {
      expect(Buffer.compare(found[i] as Bytes, TEXT.slice(from, from + length))).toBe(0);
    }
    await file.close();
  });

  it("takes times from the extra field, or from MS-DOS's two numbers", async () => {
    const field = Uint8Array.of(0x55, 0x54, 5, 0, 1, 0x00, 0xf1, 0x53, 0x65);
    const archive = await open(
      await craftVault1([
        { path: "unix", extra: field },
        { path: "dos", central: { date: ((2024 - 1980) << 9) | (2 << 5) | 29, time: (13 << 11) | (37 << 5) | 21 } },
        { path: "odd", central: { date: (13 << 5) | 1 } },
      ]),
    );
    expect(archive.entry("unix").modified).toBe(0x6553f100 * 1000);
    expect(archive.entry("dos").modified).toBe(Date.UTC(2024, 1, 29, 13, 37, 42));
    expect(archive.entry("odd").modified).toBeUndefined();
  });

  it("maps every byte once", async () => {
    const bytes = await craftVault1(FILES);
    const opened = await openSource(memorySource(bytes, "old"), { engine });
    let end = 0;
    for (const { offset, byteLength } of mapLayout(opened)) {
      expect(offset).toBe(end);
      end += byteLength;
    }
    expect(end).toBe(bytes.byteLength);
  });

  it("running reads fail when the vault is closed, and give no wrong bytes", async () => {
    const archive = await open(await craftVault1([{ path: "a", bytes: noise(3_000_000), compress: "stored" }]));
    const pieces = archive.entry("a").source().stream(0)[Symbol.asyncIterator]();
    expect((await pieces.next()).value?.subarray(0, 100)).toEqual(noise(100));
    await archive.close();
    await expect(pieces.next()).rejects.toBeInstanceOf(TareError);
  });

  it("a damaged meta entry does not lock the other files", async () => {
    const bytes = await craftVault1(FILES);
    const at = 30 + "__aerovault_meta.json".length + 11 + 20;
    bytes[at] = (bytes[at] as number) ^ 1;
    expect(Buffer.compare(await readAll(await open(bytes), "docs/a.txt"), TEXT)).toBe(0);
    expect(await codeOf(async () => readAll(await open(bytes, "another one"), "docs/a.txt"))).toBe(
      "usage/password.wrong",
    );
  });

  it("verifying finds damage, a wrong CRC and a file that is missing", async () => {
    const damage = (payload: Bytes): Bytes => payload.map((byte, i) => (i === 30 ? byte ^ 1 : byte));
    const bytes = await craftVault1(
      [
        { ...(FILES[1] as Crafted1File), damage },
        { path: "c", bytes: TEXT, version: 1, central: { crc: 7 }, local: { crc: 7 } },
      ],
      {
        meta: metaText(3),
      },
    );
    const opened = await openSource(memorySource(bytes, "old"), {
      engine,
      password: async () => encodeUtf8(VAULT_PASSWORD),
    });
    const codes = (await verify(opened, { level: "full", engine })).findings.map(({ code }) => code);
    expect(codes).toEqual([
      "integrity/aerovault1.count",
      "integrity/aerovault1.hmac",
      "integrity/aerovault1.crc",
      "integrity/aerovault1.unproven",
    ]);
  });
});
