import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { KNOWN_PASSWORD, knowingEngine, vaultContext } from "../../../test/builders/known-vaults.ts";
import { quickEngine } from "../../../test/builders/sealed-apr.ts";
import { formatContract, type Golden } from "../../../test/contracts/format-contract.ts";
import { loadFixture } from "../../../test/support/fixtures.ts";
import type { Bytes } from "../../base/bytes.ts";
import { isTareError, TareError } from "../../base/errors.ts";
import { encodeHex } from "../../base/text.ts";
import { memorySource } from "../../bytes/memory.ts";
import { verify } from "../../operations/verify.ts";
import type { VaultArchive } from "./archive.ts";
import { aerovault } from "./index.ts";
import { encodeManifest } from "./manifest/codec.ts";
import { openAerovault } from "./open.ts";
import { reader } from "./read.ts";

const ENCRYPTED = loadFixture("aerovault-sealed", "encrypted");
const PLAIN = loadFixture("aerovault", "plain");
/** Where the manifest of the fixture begins: after the header and two blocks. */
const PLAIN_MANIFEST = 1024 + 21 + 831;
const engine = knowingEngine(ENCRYPTED);

function openBytes(bytes: Bytes, password?: string): Promise<VaultArchive> {
  return openAerovault(memorySource(bytes, "golden"), vaultContext(engine, password));
}

async function contents(archive: VaultArchive): Promise<Record<string, string>> {
  const digests: Record<string, string> = {};
  for (const entry of archive.entries) {
    if (entry.type === "directory") continue;
    const bytes = await entry.source().read(0, entry.size);
    digests[entry.path] = createHash("sha256").update(bytes).digest("hex").slice(0, 16);
  }
  return digests;
}

formatContract(
  aerovault,
  ["empty", "one-file"].map((name): Golden => {
    return { name: `${name}.aerovault`, bytes: loadFixture("aerovault", name), layout: "other" };
  }),
);

const CONTENTS = { "a.txt": "c3dd477093146f45", "dir/b.txt": "732e5e76503e88db" };

describe("vaults that the reference wrote", () => {
  it.each([
    ["encrypted", ENCRYPTED, KNOWN_PASSWORD],
    ["plain", PLAIN, undefined],
    ["plain, with a password that nobody needs", PLAIN, "any"],
  ])("%s: lists and reads", async (_, bytes, password) => {
    const archive = await openBytes(bytes, password);
    expect(archive.entries.filter(({ type }) => type === "file").map(({ path, size }) => [path, size])).toEqual([
      ["a.txt", 13],
      ["dir/b.txt", 3000],
    ]);
    expect(await contents(archive)).toEqual(CONTENTS);
    expect(new TextDecoder().decode(await archive.entry("/a.txt").source().read(0, 13))).toBe("alpha shared\n");
    expect(archive.entry("a.txt").modified).toBeGreaterThan(Date.UTC(2026, 10, 15));
  });

  it.each([
    ["encrypted", ENCRYPTED],
    ["plain", PLAIN],
  ])("%s: the manifest is encoded byte for byte as it was", async (_, bytes) => {
    const { vault } = await openBytes(bytes, KNOWN_PASSWORD);
    const { manifestOffset, manifestLength } = vault.header.values;
    const stored = vault.cipher.openManifest(bytes.subarray(manifestOffset, manifestOffset + manifestLength));
    expect(encodeManifest(vault.manifest)).toEqual(stored);
  });

  it("verifies clean, and reports what nothing proves in the plaintext lane", async () => {
    for (const [bytes, codes] of [
      [ENCRYPTED, []],
      [PLAIN, ["integrity/aerovault.unproven"]],
    ] as const) {
      const container = await openBytes(bytes, KNOWN_PASSWORD);
      const report = await verify({ container, format: aerovault, reader, notes: [] }, { level: "full", engine });
      expect(report.findings.map(({ code }) => code)).toEqual(codes);
      expect(report).toMatchObject({ ok: true, weights: "compared", checked: { files: 2, blocks: 2 } });
    }
  });

  it("one-file has the size, the id and the BLAKE3 of the format's known answers", async () => {
    const bytes = loadFixture("aerovault", "one-file");
    expect(bytes.byteLength).toBe(1994);
    expect(encodeHex(await engine.digest("blake3", bytes))).toBe(
      "13c0bd2d022589b026f684aa1894139a40cda9fa82334bcc30259b04aee46479",
    );
    const archive = await openBytes(bytes);
    expect([...archive.vault.manifest.chunks.keys()]).toEqual(["89ab1436da7eca4fdc64521ce600df2b"]);
    expect(await archive.entry("a.txt").source().read(0, 6)).toEqual(new TextEncoder().encode("hello\n"));
  });
});

describe("passwords", () => {
  it("tells a wrong one from a missing one", async () => {
    await expect(openBytes(ENCRYPTED, "crafted-shared-5")).rejects.toMatchObject({ code: "usage/password.wrong" });
    await expect(openBytes(ENCRYPTED)).rejects.toMatchObject({ code: "usage/password.missing" });
  });

  it.each([
    ["wrapped master key", 50, "integrity/aerovault.header"],
    ["wrapped MAC key", 90, "integrity/aerovault.header"],
    ["MAC", 1000, "integrity/aerovault.header"],
    ["salt", 20, "usage/password.wrong"],
  ])("tells damage of the %s from a wrong password as far as there is evidence", async (_, offset, code) => {
    await expect(openBytes(flip(ENCRYPTED, offset), KNOWN_PASSWORD)).rejects.toMatchObject({ code });
  });

  it.each([
    ["magic", 3, "format/aerovault.header"],
    ["version", 10, "unsupported/aerovault.version"],
    ["flags", 11, "unsupported/aerovault.flags"],
    ["header length", 125, "format/aerovault.header"],
    ["data offset", 129, "format/aerovault.section"],
    ["manifest offset", 149, "format/aerovault.section"],
    ["wrapper version", 192, "unsupported/aerovault.version"],
    ["first reserved byte", 194, "unsupported/aerovault.reserved"],
    ["last reserved byte", 959, "unsupported/aerovault.reserved"],
  ])("refuses damage of the %s before it derives a key", async (_, offset, code) => {
    const before = engine.derivations();
    await expect(openBytes(flip(ENCRYPTED, offset, 0x40), KNOWN_PASSWORD)).rejects.toMatchObject({ code });
    expect(engine.derivations()).toBe(before);
  });

  it("detects that the flag of the plaintext lane was lost", async () => {
    const error = await openBytes(flip(PLAIN, 11), "any").catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "integrity/aerovault.header", at: { offset: 11 } });
    // A power failure can have torn it: the file that completes it is beside the name that was changed.
    expect(error).toMatchObject({ hint: expect.stringContaining("another name or place") });
  });
});

/** The contents of an opened vault, or the error; any other kind of error fails the test. */
async function outcome(bytes: Bytes): Promise<Record<string, string> | TareError> {
  try {
    return await contents(await openBytes(bytes, KNOWN_PASSWORD));
  } catch (error) {
    if (isTareError(error)) return error;
    throw error;
  }
}

describe("damage", () => {
  it("anywhere in an encrypted vault is refused with a place", async () => {
    // Every byte of the header, then every fifth, since all bytes of a section are protected alike.
    for (let i = 0; i < ENCRYPTED.byteLength; i += i < 1024 ? 1 : 5) {
      const result = await outcome(flip(ENCRYPTED, i));
      if (!(result instanceof TareError)) throw new Error(`byte ${i} went unnoticed`);
      expect(result.at.source, `byte ${i}`).toMatch(/^golden/);
    }
  });

  it("of the header or of a stored byte of a plain vault is refused", async () => {
    for (let i = 0; i < PLAIN_MANIFEST; i += i < 1024 ? 1 : 5) {
      const result = await outcome(flip(PLAIN, i));
      if (!(result instanceof TareError)) throw new Error(`byte ${i} went unnoticed`);
    }
  });

  it("of the manifest of a plain vault never returns wrong bytes, except through a size or a pack offset", async () => {
    const text = new TextDecoder("latin1").decode(PLAIN);
    const unprotected = [...text.matchAll(/"(?:size|pack_offset)":\d+/g)].map(({ index, 0: found }) => {
      return { start: index, end: index + found.length };
    });
    let opened = 0;
    for (let i = PLAIN_MANIFEST; i < PLAIN.byteLength; i++) {
      const result = await outcome(flip(PLAIN, i));
      if (result instanceof TareError || unprotected.some(({ start, end }) => i >= start && i < end)) continue;
      opened++;
      const known = Object.entries(result).filter(([path]) => Object.hasOwn(CONTENTS, path));
      expect(CONTENTS, `byte ${i}`).toMatchObject(Object.fromEntries(known));
    }
    expect(opened).toBeGreaterThan(50); // times and names
  });

  it("by cutting it off anywhere is refused", async () => {
    for (const length of [1, 10, 500, 1023, 1024, 1900, ENCRYPTED.byteLength - 1]) {
      const result = await outcome(ENCRYPTED.slice(0, length));
      expect(result).toMatchObject({ code: expect.stringMatching(/^format\/aerovault\.(header|section)$/) });
    }
  });

  it("by extra bytes at the end is a warning", async () => {
    const longer = new Uint8Array(ENCRYPTED.byteLength + 16);
    longer.set(ENCRYPTED);
    const archive = await openBytes(longer, KNOWN_PASSWORD);
    expect(archive.warnings).toMatchObject([
      { code: "format/aerovault.trailing", at: { offset: ENCRYPTED.byteLength } },
    ]);
    expect(await contents(archive)).toEqual(CONTENTS);
  });
});

it("an attempt to change a vault of version 2 names its version, even if the file is short", async () => {
  const old = new TextEncoder().encode("AEROVAULT2\u0002 and nothing else");
  const context = vaultContext(quickEngine(), "any");
  await expect(openAerovault(memorySource(old), context)).rejects.toMatchObject({
    code: "unsupported/aerovault.older",
  });
});

function flip(bytes: Bytes, offset: number, mask = 1): Bytes {
  return bytes.map((byte, i) => (i === offset ? byte ^ mask : byte));
}
