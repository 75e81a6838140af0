import { deflateRawSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { type Bytes, concatBytes } from "../../src/base/bytes.ts";
import { isTareError } from "../../src/base/errors.ts";
import { encodeUtf8 } from "../../src/base/text.ts";
import { memorySource } from "../../src/bytes/memory.ts";
import { openAerovault1 } from "../../src/formats/aerovault1/read.ts";
import { portableEngine } from "../../src/primitives/portable.ts";
import { VAULT_PASSWORD } from "../builders/crafted-vault.ts";
import { vaultContext } from "../builders/known-vaults.ts";
import { type Craft1Options, type Crafted1File, craftVault1 } from "../builders/vault1.ts";

/** What a ZIP can be made to do to its readers, tried on vaults of version 1. */

const engine = portableEngine();
const bytes = encodeUtf8("some bytes");

async function outcome(files: readonly Crafted1File[], options: Craft1Options = {}): Promise<unknown> {
  const vault = await craftVault1(files, options);
  try {
    const archive = await openAerovault1(memorySource(vault, "zip"), vaultContext(engine, VAULT_PASSWORD));
    let read = 0;
    for (const entry of archive.entries.filter(({ type }) => type === "file")) {
      for await (const piece of entry.source().stream(0)) read += piece.byteLength;
    }
    return read;
  } catch (error) {
    if (!isTareError(error)) throw error;
    expect(error.at.offset, error.message).toEqual(expect.any(Number));
    return error.code;
  }
}

const patched = (at: number, value: number, size: 2 | 4): Craft1Options => ({
  patch: (vault) => {
    const view = new DataView(vault.buffer);
    const offset = at < 0 ? vault.byteLength + at : at;
    if (size === 2) view.setUint16(offset, value, true);
    else view.setUint32(offset, value, true);
    return vault;
  },
});

describe("paths that lead elsewhere", () => {
  it.each(["../x", "/etc/passwd", "a/../../x", "a//b", "./x", "", "a\0b", "..", "x/..", "../"])("%j", async (path) => {
    expect(await outcome([{ path, bytes }])).toBe("format/aerovault1.path");
  });

  it("two entries of one name, a name below a file, the meta entry twice", async () => {
    for (const paths of [["a", "a"], ["a", "a/b"], ["a/", "a"], ["__aerovault_meta.json"]]) {
      expect(await outcome(paths.map((path) => ({ path, bytes })))).toBe("format/aerovault1.path");
    }
  });

  it("a name that is not UTF-8", async () => {
    const name = (vault: Bytes): Bytes => {
      for (let at = 0; at < vault.byteLength; at++) if (vault[at] === 0x7e) vault[at] = 0xff;
      return vault;
    };
    expect(await outcome([{ path: "~", bytes, compress: "stored" }], { patch: name })).toBe("format/aerovault1.path");
  });

  it.each([
    ["a symbolic link", 0o120777],
    ["a device", 0o060600],
    ["a pipe", 0o010600],
    ["a socket", 0o140600],
  ])("%s", async (_, mode) => {
    const file = { path: "l", bytes: encodeUtf8("/etc/passwd"), central: { externalAttributes: mode * 65536 } };
    expect(await outcome([file])).toBe("format/aerovault1.kind");
  });
});

describe("bytes that count twice", () => {
  it("an entry whose stored bytes are another's", async () => {
    const files = [
      { path: "a", bytes },
      { path: "b", bytes, central: { localOffset: 215 } },
    ];
    expect(await outcome(files)).toBe("format/aerovault1.overlap");
  });

  it("an entry that reaches into the next one, or into the directory", async () => {
    const long = { path: "a", bytes, compress: "stored", central: { compressedSize: 60, size: 32 } } as const;
    expect(await outcome([long, { path: "b", bytes }])).toBe("format/aerovault1.overlap");
    expect(await outcome([{ path: "b", bytes }, long])).toBe("format/aerovault1.overlap");
    expect(await outcome([{ path: "a", bytes, central: { localOffset: 0xfffffff0 } }])).toBe(
      "format/aerovault1.overlap",
    );
  });

  it("an extra field of the local header that hides the next entry", async () => {
    const patch = (vault: Bytes): Bytes => {
      new DataView(vault.buffer).setUint16(28, 200, true); // of the meta entry
      return vault;
    };
    expect(await outcome([{ path: "a", bytes, compress: "stored" }], { patch })).toBe(10); // only the meta entry is lost
  });
});

describe("bombs and wrong sizes", () => {
  const bomb = new Uint8Array(deflateRawSync(new Uint8Array(30_000_000), { level: 9 }));

  it("gives no more than the directory says, however much the stream would", async () => {
    const file = { path: "a", payload: bomb, central: { size: 1000 }, local: { size: 1000 } };
    expect(await outcome([file])).toBe("limit/deflate.output");
  });

  it("believes no size that deflate cannot reach", async () => {
    const size = 0xffff_fff0;
    expect(await outcome([{ path: "a", bytes, central: { size }, local: { size } }])).toBe("format/aerovault1.size");
    const stored = { path: "a", bytes, compress: "stored", central: { size: 11 }, local: { size: 11 } } as const;
    expect(await outcome([stored])).toBe("format/aerovault1.size");
  });

  it("notices a file that is shorter than it says, a cut stream, and bytes behind it", async () => {
    expect(await outcome([{ path: "a", bytes, central: { size: 11 }, local: { size: 11 } }])).toBe(
      "format/aerovault1.size",
    );
    const stream = new Uint8Array(deflateRawSync(bytes));
    const cut = { path: "a", bytes, payload: stream.slice(0, -1) };
    expect(await outcome([cut])).toBe("format/deflate.stream");
    expect(await outcome([{ path: "a", bytes, payload: concatBytes([stream, bytes]) }])).toBe("format/deflate.stream");
  });

  it("refuses entries too short to be encrypted", async () => {
    const short = { path: "a", bytes, central: { compressedSize: 27, size: 0 } };
    expect(await outcome([short])).toBe("format/aerovault1.size");
  });
});

describe("readers that disagree", () => {
  it.each<readonly [string, Crafted1File]>([
    ["name", { path: "a", bytes, local: { name: "b" } }],
    ["method", { path: "a", bytes, local: { method: 8 } }],
    ["flags", { path: "a", bytes, local: { flags: 0 } }],
    ["size", { path: "a", bytes, local: { size: 9 } }],
    ["CRC", { path: "a", bytes, version: 1, local: { crc: 1 } }],
  ])("a local header with another %s", async (_, file) => {
    expect(await outcome([file])).toBe("format/aerovault1.local");
  });

  it("a comment, something in front, something behind, and a directory elsewhere", async () => {
    const files = [{ path: "a", bytes }];
    expect(await outcome(files, { comment: "PK" })).toBe("format/aerovault1.end");
    expect(await outcome(files, { patch: (vault) => concatBytes([bytes, vault]) })).toBe("format/aerovault1.end");
    expect(await outcome(files, { patch: (vault) => concatBytes([vault, bytes]) })).toBe("format/aerovault1.end");
    expect(await outcome(files, patched(-6, 5, 4))).toBe("format/aerovault1.end");
    expect(await outcome(files, patched(-10, 0xffff_fff0, 4))).toBe("format/aerovault1.end");
    expect(await outcome(files, patched(-18, 1, 2))).toBe("format/aerovault1.end"); // another disk
    expect(await outcome(files, patched(-12, 1, 2))).toBe("format/aerovault1.end"); // rows here and in all
  });

  it("more or fewer rows than the end says", async () => {
    const rows = (count: number): Craft1Options => ({
      patch: (vault) => {
        const view = new DataView(vault.buffer);
        for (const at of [14, 12]) view.setUint16(vault.byteLength - at, count, true);
        return vault;
      },
    });
    expect(await outcome([{ path: "a", bytes }], rows(1))).toBe("format/aerovault1.directory");
    expect(await outcome([{ path: "a", bytes }], rows(3))).toBe("format/aerovault1.end");
    expect(await outcome([{ path: "a", bytes }], rows(60_000))).toBe("format/aerovault1.end");
  });

  it("ZIP64 records that lie", async () => {
    const zip64 = (at: number, value: bigint): Craft1Options => ({
      zip64: "always",
      patch: (vault) => {
        new DataView(vault.buffer).setBigUint64(vault.byteLength - 22 - 20 - 56 + at, value, true);
        return vault;
      },
    });
    const files = [{ path: "a", bytes }];
    expect(await outcome(files, zip64(4, 45n))).toBe("format/aerovault1.end");
    expect(await outcome(files, zip64(48, 2n ** 63n))).toBe("limit/integer");
    expect(await outcome(files, zip64(40, 2n ** 53n - 1n))).toBe("format/aerovault1.end");
    expect(await outcome(files, zip64(32, 2n ** 50n))).toBe("format/aerovault1.end");
    expect(await outcome(files, zip64(56 + 8, 0n))).toBe("format/aerovault1.end");
    const long = { path: "a", bytes, central: { size: 0xffff_ffff } };
    expect(await outcome([long])).toBe("format/aerovault1.extra"); // no field to look into
  });
});

describe("files that somebody without the password put in", () => {
  it("a file that is not encrypted, and one with other encryption", async () => {
    expect(await outcome([{ path: "a", bytes, plain: "plain" }])).toBe("format/aerovault1.unencrypted");
    const weak = Uint8Array.of(0x01, 0x99, 7, 0, 2, 0, 0x41, 0x45, 1, 8, 0);
    expect(await outcome([{ path: "a", bytes, aes: weak }])).toBe("unsupported/aerovault1.encryption");
    const twice = concatBytes([weak, weak]);
    expect(await outcome([{ path: "a", bytes, aes: twice }])).toBe("format/aerovault1.extra");
    expect(await outcome([{ path: "a", bytes, aes: weak.slice(0, 9) }])).toBe("format/aerovault1.extra");
    expect(await outcome([{ path: "a", bytes, central: { flags: 0x41 } }])).toBe("unsupported/aerovault1.entry");
  });

  it("hands out nothing of a file whose last byte was changed", async () => {
    const damage = (payload: Bytes): Bytes => {
      const copy = payload.slice();
      copy[copy.byteLength - 11] = (copy.at(-11) as number) ^ 1; // the last byte of ciphertext
      return copy;
    };
    const vault = await craftVault1([
      { path: "a", bytes: new Uint8Array(3_000_000).fill(7), compress: "stored", damage },
    ]);
    const archive = await openAerovault1(memorySource(vault, "zip"), vaultContext(engine, VAULT_PASSWORD));
    const source = archive.entry("a").source();
    await expect(source.read(0, 1)).rejects.toMatchObject({ code: "integrity/aerovault1.hmac" });
    await expect(source.stream(0)[Symbol.asyncIterator]().next()).rejects.toMatchObject({
      code: "integrity/aerovault1.hmac",
    });
  });

  it("a ZIP without the meta entry is no vault", async () => {
    expect(await outcome([{ path: "a", bytes }], { meta: null })).toBe("format/aerovault1.meta");
  });
});
