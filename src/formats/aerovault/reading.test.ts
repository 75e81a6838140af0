import { describe, expect, it } from "vitest";
import {
  type CraftedFile,
  type CraftOptions,
  craftVault,
  VAULT_PASSWORD,
} from "../../../test/builders/crafted-vault.ts";
import { vaultContext } from "../../../test/builders/known-vaults.ts";
import { quickEngine } from "../../../test/builders/sealed-apr.ts";
import { sourceContract } from "../../../test/contracts/source-contract.ts";
import { countingSource } from "../../../test/support/counting-source.ts";
import { type Bytes, concatBytes } from "../../base/bytes.ts";
import type { LimitOverrides } from "../../base/limits.ts";
import { memorySource } from "../../bytes/memory.ts";
import type { Source } from "../../bytes/source.ts";
import type { GcmSivKey } from "../../primitives/cipher/gcm-siv.ts";
import type { VaultArchive } from "./archive.ts";
import type { ChunkRecord, Manifest, ManifestEntry } from "./manifest/records.ts";
import { type EntryList, entryList } from "./manifest/records.ts";
import { openAerovault } from "./open.ts";

const engine = quickEngine();

/** Different bytes for each seed, which do not compress. */
function noise(byteLength: number, seed: number): Bytes {
  let x = 2 * seed + 1;
  return Uint8Array.from({ length: byteLength }, () => {
    x = Math.imul(x ^ (x >>> 15), 0x2c1b3c6d) + 0x9e3779b9;
    return (x >>> 11) & 0xff;
  });
}

function cut(bytes: Bytes, size: number): Bytes[] {
  const count = Math.ceil(bytes.byteLength / size);
  return Array.from({ length: count }, (_, i) => bytes.slice(i * size, (i + 1) * size));
}

async function openBuilt(files: readonly CraftedFile[], options: CraftOptions = {}): Promise<VaultArchive> {
  return openFrom(memorySource(await craftVault(files, options), "built"));
}

function openFrom(source: Source): Promise<VaultArchive> {
  return openAerovault(source, vaultContext(engine, VAULT_PASSWORD));
}

sourceContract("an entry of an encrypted vault", async (bytes) => {
  const archive = await openBuilt([{ path: "file", chunks: cut(bytes, 70_001) }]);
  return { source: archive.entry("file").source(), dispose: () => archive.close() };
});

sourceContract("a compressed entry in the middle of a pack", async (bytes) => {
  const pack = cut(concatBytes([noise(5000, 1), bytes, noise(90_000, 2)]), 65_536);
  const file = { path: "dir/file", chunks: pack, packOffset: 5000, size: bytes.byteLength };
  const archive = await openBuilt([file], { lane: "plain", compress: () => true });
  return { source: archive.entry("dir/file").source(), dispose: () => archive.close() };
});

/** The same entries, each with the change. */
function resized({ entries }: Manifest, change: Partial<ManifestEntry>): EntryList {
  return entryList(entries.records().map((entry) => ({ ...entry, ...change })));
}

describe("reads", () => {
  const chunks = Array.from({ length: 60 }, (_, i) => noise(20_000, i));
  const whole = concatBytes(chunks);
  const built = craftVault([{ path: "model", chunks }]);

  async function counted(): Promise<{
    archive: VaultArchive;
    reads: readonly { offset: number; byteLength: number }[];
  }> {
    const source = countingSource(memorySource(await built, "counted"));
    const archive = await openFrom(source);
    return { archive, reads: source.calls };
  }

  it("opening reads header, manifest and extension directory, and nothing of the data", async () => {
    const { archive, reads } = await counted();
    const { manifestOffset } = archive.vault.header.values;
    expect(reads.every(({ offset, byteLength }) => offset + byteLength <= 1024 || offset >= manifestOffset)).toBe(true);
    expect(reads.length).toBeLessThanOrEqual(3);
  });

  it("a read touches only the blocks that it needs, and reads neighbours with one request", async () => {
    const { archive, reads } = await counted();
    const source = archive.entry("model").source();
    const opening = reads.length;
    expect(await source.read(210_000, 25_000)).toEqual(whole.subarray(210_000, 235_000));
    const [first, ...others] = reads.slice(opening);
    const block = 8 + 12 + 20_000 + 16;
    expect(others).toEqual([]);
    expect(first).toMatchObject({ offset: 1024 + 10 * block, byteLength: 2 * block });
  });

  it("a recently used block is not read again", async () => {
    const { archive, reads } = await counted();
    const source = archive.entry("model").source();
    await source.read(0, 100);
    const before = reads.length;
    expect(await source.read(19_000, 500)).toEqual(whole.subarray(19_000, 19_500));
    expect(reads.length).toBe(before);
    await Promise.all([source.read(400_000, 1000), source.read(401_000, 1000), source.read(402_500, 1000)]);
    expect(reads.length).toBe(before + 1);
  });

  it("a chunk that is listed many times is read once, and chunks after the end are not read", async () => {
    const zeros = new Uint8Array(4096);
    const other = noise(4096, 3);
    const files = [
      { path: "zeros", chunks: Array.from({ length: 500 }, () => zeros) },
      { path: "ten", chunks: [zeros, ...Array.from({ length: 500 }, () => other)], packOffset: 0, size: 10 },
    ];
    const source = countingSource(memorySource(await craftVault(files), "repeated"));
    const archive = await openFrom(source);
    const opening = source.calls.length;
    expect(await archive.entry("ten").source().read(0, 10)).toEqual(new Uint8Array(10));
    expect(
      (
        await archive
          .entry("zeros")
          .source()
          .read(0, 500 * 4096)
      ).every((byte) => byte === 0),
    ).toBe(true);
    expect(source.calls.length).toBe(opening + 1);
  });
});

describe("refusals", () => {
  const file = { path: "file", chunks: [noise(1000, 1), noise(900, 2)] };
  const change = (edit: (record: ChunkRecord) => Partial<ChunkRecord>) => (manifest: Manifest) => {
    const [[id, record]] = [...manifest.chunks] as [[string, ChunkRecord]];
    return { ...manifest, chunks: new Map([...manifest.chunks, [id, { ...record, ...edit(record) }]]) };
  };
  const read = async (options: CraftOptions, files: readonly CraftedFile[] = [file]): Promise<Bytes> => {
    const source = (await openBuilt(files, options)).entry("file").source();
    return source.read(0, source.byteLength);
  };

  it.each([
    ["a block outside of the data", change(() => ({ dataOffset: 10_000 })), "format/aerovault.block"],
    [
      "a block that is longer than blocks are",
      change(() => ({ blockLen: 2 ** 52, dataOffset: 5000 })),
      "format/aerovault.block",
    ],
    ["a chunk above the bounds", change(() => ({ plaintextLen: 4_194_305 })), "limit/aerovault.chunk-bytes"],
    ["another cipher hash", change(() => ({ cipherHash: "0".repeat(64) })), "integrity/aerovault.cipher-hash"],
    [
      "an upper-case cipher hash",
      change((record) => ({ cipherHash: record.cipherHash.toUpperCase() })),
      "integrity/aerovault.cipher-hash",
    ],
    ["another block index", change(() => ({ blockIndex: 77 })), "integrity/aerovault.tag"],
    ["a raw block said to be compressed", change(() => ({ storedRaw: false })), "integrity/aerovault.frame"],
    ["a raw block of another length", change(() => ({ plaintextLen: 1001 })), "integrity/aerovault.frame"],
    ["overlapping blocks", change((record) => ({ dataOffset: record.dataOffset + 1 })), "format/aerovault.overlap"],
    ["an inner id of its own", change(() => ({ innerId: "f".repeat(32) })), "accepted"],
  ])("%s", async (_, manifest, code) => {
    if (code === "accepted")
      expect((await read({ manifest })).byteLength).toBe(1900); // the encoder writes no inner id
    else await expect(read({ manifest })).rejects.toMatchObject({ code });
  });

  it("content under another chunk's id, encrypted by a holder of the key", async () => {
    const manifest = (found: Manifest): Manifest => {
      const [[id, record]] = [...found.chunks] as [[string, ChunkRecord]];
      const other = `${id.slice(0, -1)}${id.endsWith("0") ? "1" : "0"}`;
      const entries = found.entries.records().map((entry) => ({
        ...entry,
        chunks: entry.chunks.map((x) => (x === id ? other : x)),
      }));
      const chunks = new Map([...found.chunks].filter(([key]) => key !== id));
      return { ...found, entries: entryList(entries), chunks: chunks.set(other, { ...record, id: other }) };
    };
    // In the plaintext lane only the id itself shows it.
    await expect(read({ manifest, lane: "plain" })).rejects.toMatchObject({ code: "integrity/aerovault.chunk-id" });
  });

  it.each([
    ["a missing chunk", (m: Manifest) => ({ ...m, chunks: new Map([...m.chunks].slice(1)) })],
    ["a size beyond the chunks", (m: Manifest) => ({ ...m, entries: resized(m, { size: 1901 }) })],
    ["a place in the pack beyond them", (m: Manifest) => ({ ...m, entries: resized(m, { packOffset: 2 ** 53 - 1 }) })],
  ])("%s is reported for the entry, and the others stay readable", async (_, manifest) => {
    const other = { path: "other", chunks: [noise(50, 9)] };
    const spoil = (found: Manifest): Manifest => {
      const [mine, kept] = found.entries.records();
      const spoilt = manifest({ ...found, entries: entryList([mine as ManifestEntry]) });
      return { ...spoilt, entries: entryList([...spoilt.entries.records(), kept as ManifestEntry]) };
    };
    const archive = await openBuilt([file, other], { manifest: spoil });
    expect(() => archive.entry("file").source()).toThrow(expect.objectContaining({ code: "format/aerovault.chunk" }));
    expect(await archive.entry("other").source().read(0, 50)).toEqual(noise(50, 9));
  });

  it("a size below that of the file's own chunks, if nothing else protects it", async () => {
    const manifest = (m: Manifest): Manifest => ({ ...m, entries: resized(m, { size: 1500 }) });
    await expect(read({ manifest, lane: "plain" })).rejects.toMatchObject({ code: "format/aerovault.size" });
    expect(await read({ manifest })).toEqual(concatBytes(file.chunks).slice(0, 1500));
  });

  it.each([
    ["../evil", "format/aerovault.path"],
    ["file/under", "format/aerovault.path-conflict"],
  ])("the path %s, for the whole vault", async (path, code) => {
    await expect(read({}, [file, { path, chunks: [] }])).rejects.toMatchObject({ code });
  });

  it("two entries with one path", async () => {
    const manifest = (m: Manifest): Manifest => ({
      ...m,
      entries: entryList([...m.entries.records(), ...m.entries.records()]),
    });
    await expect(read({ manifest })).rejects.toMatchObject({ code: "format/aerovault.duplicate-path" });
  });

  it("an unknown algorithm, and a lane on which header and manifest disagree", async () => {
    const wrapper = (name: string, edit: object) => (m: Manifest) => {
      return { ...m, wrappers: { ...m.wrappers, [name]: { ...m.wrappers[name as "crypt"], ...edit } } } as Manifest;
    };
    const unknown = { manifest: wrapper("chunking", { algorithmVersion: 2 }) };
    await expect(read(unknown)).rejects.toMatchObject({ code: "unsupported/aerovault.wrapper" });
    const mixed = { manifest: wrapper("crypt", { algorithmId: "none" }) };
    await expect(read(mixed)).rejects.toMatchObject({ code: "format/aerovault.lane" });
  });

  it("a directory has no bytes, and the error for a missing path names similar ones", async () => {
    const archive = await openBuilt([file, { path: "folder", type: "directory" }]);
    expect(() => archive.entry("folder").source()).toThrow(expect.objectContaining({ code: "usage/not-a-file" }));
    expect(() => archive.entry("fille")).toThrow(
      expect.objectContaining({ code: "usage/entry-not-found", hint: expect.stringContaining('"file"') }),
    );
  });

  it("a closed archive wipes its keys and returns no more bytes", async () => {
    const archive = await openBuilt([file]);
    const source = archive.entry("file").source();
    await archive.close();
    expect(archive.vault.keys.master.every((byte) => byte === 0)).toBe(true);
    await expect(source.read(0, 10)).rejects.toMatchObject({ code: "source/closed" });
  });
});

it("unknown extensions are kept with their rows, and critical ones are refused before a key is derived", async () => {
  const row = { extensionId: "demo.future", algorithmId: "demo", algorithmVersion: 1, offset: 2, length: 14 };
  const make = (critical: boolean): Promise<VaultArchive> =>
    openBuilt([], { extensions: [{ ...row, critical, extra: new Map() }], payload: noise(16, 4) });
  const { vault } = await make(false);
  expect(vault.extensions).toMatchObject([row]);
  await expect(make(true)).rejects.toMatchObject({ code: "unsupported/aerovault.extension" });
});

describe("paths that are too long for any file system", () => {
  const deep = (count: number): string => Array.from({ length: count }, () => "a").join("/");
  const open = async (path: string, limits: LimitOverrides = {}) =>
    openAerovault(memorySource(await craftVault([{ path, type: "directory" }], { lane: "plain" })), {
      ...vaultContext(engine, undefined),
      limits,
    });

  it("are refused by their length and depth before their folders are checked", async () => {
    await expect(open(deep(257))).rejects.toMatchObject({ code: "limit/aerovault.path-depth" });
    await expect(open(deep(80_000))).rejects.toMatchObject({ code: "limit/aerovault.path-length" });
    await expect(open("n".repeat(4097))).rejects.toMatchObject({ code: "limit/aerovault.path-length" });
    expect((await open(deep(256))).entries).toHaveLength(1);
  });

  it("are read with raised limits", async () => {
    const { entries } = await open(deep(300), { aerovault: { pathDepth: 300 } });
    expect(entries[0]?.path).toBe(deep(300));
  });
});

it("wipes the keys of the cipher if the manifest turns out to be damaged", async () => {
  const bytes = await craftVault([{ path: "file", chunks: [noise(100, 1)] }]);
  const intact = await openFrom(memorySource(bytes.slice(), "built"));
  const at = intact.vault.header.values.manifestOffset + 20;
  await intact.close();
  bytes[at] = (bytes[at] as number) ^ 1;
  const made: GcmSivKey[] = [];
  const watched = new Proxy(engine, {
    get(target, name) {
      if (name !== "aesGcmSiv") return Reflect.get(target, name);
      return async (key: Bytes) => {
        const one = await target.aesGcmSiv(key);
        made.push(one);
        return one;
      };
    },
  });
  const opened = openAerovault(memorySource(bytes, "built"), vaultContext(watched, VAULT_PASSWORD));
  await expect(opened).rejects.toMatchObject({ code: "integrity/aerovault.manifest" });
  expect(made.length).toBeGreaterThan(0);
  const empty = new Uint8Array(0);
  for (const key of made)
    expect(() => key.seal(new Uint8Array(12), empty, empty)).toThrow(
      expect.objectContaining({ code: "usage/gcm-siv" }),
    );
});
