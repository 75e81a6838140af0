import { describe, expect, it } from "vitest";
import { bounded } from "../../../test/attacks/bounded.ts";
import {
  type CraftedFile,
  type CraftOptions,
  craftVault,
  VAULT_PASSWORD,
} from "../../../test/builders/crafted-vault.ts";
import { vaultContext } from "../../../test/builders/known-vaults.ts";
import { quickEngine } from "../../../test/builders/sealed-apr.ts";
import { xorshiftBytes } from "../../../test/vectors/xorshift.ts";
import { words } from "../../../test/vectors/zstd.ts";
import { type Bytes, concatBytes, equalBytes } from "../../base/bytes.ts";
import { memorySource } from "../../bytes/memory.ts";
import { xxh64 } from "../../primitives/digest/xxh64.ts";
import type { Engine } from "../../primitives/engine.ts";
import type { ChunkRecord, Manifest } from "./manifest/records.ts";
import { entryList } from "./manifest/records.ts";
import { openAerovault } from "./open.ts";

/** Unusual or damaged vaults, each shown by a single file. */

const engine = quickEngine();

async function readFile(files: readonly CraftedFile[], options: CraftOptions = {}): Promise<Bytes> {
  const source = memorySource(await craftVault(files, options), "crafted");
  const archive = await openAerovault(source, vaultContext(engine, VAULT_PASSWORD));
  const entry = archive.entry("file");
  return entry.source().read(0, entry.size);
}

/** Applied to the record of every chunk. */
function records(edit: (record: ChunkRecord) => Partial<ChunkRecord>): (manifest: Manifest) => Manifest {
  return (manifest) => ({
    ...manifest,
    chunks: new Map([...manifest.chunks].map(([id, record]) => [id, { ...record, ...edit(record) }])),
  });
}

function withBounds(bounds: { min: number; avg: number; max: number } | undefined): (manifest: Manifest) => Manifest {
  return ({ wrappers, ...rest }) => {
    const { bounds: _, ...chunking } = wrappers.chunking;
    return { ...rest, wrappers: { ...wrappers, chunking: bounds === undefined ? chunking : { ...chunking, bounds } } };
  };
}

describe("header", () => {
  it.each([0x02, 0x80, 0xfe])("flags of %i are refused even if the MAC is right", async (flags) => {
    const made = readFile([{ path: "file", chunks: [words(100)] }], { header: (values) => ({ ...values, flags }) });
    await expect(made).rejects.toMatchObject({ code: "unsupported/aerovault.flags" });
  });

  it("no byte of a header changes the cost of a password", async () => {
    const costs: unknown[] = [];
    const watching = new Proxy(engine, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== "function") return value;
        if (name !== "argon2id") return value.bind(target);
        return (password: Bytes, { salt, ...cost }: Parameters<Engine["argon2id"]>[1]) => {
          costs.push(cost);
          return engine.argon2id(password, { salt, ...cost });
        };
      },
    });
    const vault = await craftVault([]);
    for (const offset of [12, 43, 44, 83, 84, 123, 136, 152, 160, 168, 960, 1023]) {
      const changed = vault.slice();
      changed[offset] = (changed[offset] as number) ^ 1;
      const opened = openAerovault(memorySource(changed), vaultContext(watching, VAULT_PASSWORD));
      await opened.then(
        (archive) => archive.close(),
        () => undefined,
      );
    }
    expect(costs.length).toBeGreaterThan(5);
    for (const cost of costs) expect(cost).toEqual({ memoryKib: 131_072, passes: 4, lanes: 4, byteLength: 32 });
  });
});

describe("lengths of chunks", () => {
  const bomb = new Uint8Array(64 << 20);
  const archiveBounds = { min: 1 << 20, avg: 4 << 20, max: 16 << 20 };

  it("a plaintext_len of 5 GiB is refused before anything is decoded", async () => {
    const manifest = records(() => ({ plaintextLen: 5 * 2 ** 30 }));
    await bounded(() =>
      expect(readFile([{ path: "file", chunks: [words(3000)] }], { manifest })).rejects.toMatchObject({
        code: "limit/aerovault.chunk-bytes",
      }),
    );
  });

  it("decoding a frame of 64 MiB with a small plaintext_len stops at that length", async () => {
    const manifest = (found: Manifest): Manifest => {
      const edited = records(() => ({ plaintextLen: 1000 }))(found);
      return { ...edited, entries: entryList(edited.entries.records().map((entry) => ({ ...entry, size: 1000 }))) };
    };
    const made = await craftVault([{ path: "file", chunks: [bomb] }], { compress: () => true, manifest });
    expect(made.byteLength).toBeLessThan(32 << 10);
    const archive = await openAerovault(memorySource(made, "bomb"), vaultContext(engine, VAULT_PASSWORD));
    const before = process.memoryUsage().arrayBuffers;
    await expect(archive.entry("file").source().read(0, 1000)).rejects.toMatchObject({
      code: expect.stringMatching(/^(limit|format|integrity)\//),
    });
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(16 << 20);
  });

  const five = xorshiftBytes(5 << 20, 3n);

  it("the bounds that the vault records apply, not the default ones", async () => {
    const files = [{ path: "file", chunks: [five] }];
    expect(equalBytes(await readFile(files, { manifest: withBounds(archiveBounds) }), five)).toBe(true);
  });

  it("without bounds in the vault a chunk of 5 MiB is refused", async () => {
    const made = readFile([{ path: "file", chunks: [five] }], { manifest: withBounds(undefined) });
    await expect(made).rejects.toMatchObject({ code: "limit/aerovault.chunk-bytes" });
  });

  it("a raw block decodes by its length alone, as written since 0.6.3", async () => {
    const chunk = words(5000);
    const text = (json: string): string => {
      expect(json).toContain('"stored_raw":true');
      return json;
    };
    expect(await readFile([{ path: "file", chunks: [chunk] }], { text })).toEqual(chunk);
    const manifest = records(() => ({ plaintextLen: 4999 }));
    const made = readFile([{ path: "file", chunks: [chunk], size: 4999 }], { manifest });
    await expect(made).rejects.toMatchObject({ code: "integrity/aerovault.frame" });
  });
});

/** A zstd frame with one uncompressed block (RFC 8878): with a size, a checksum, both or neither. */
function frame(content: Bytes, marks: { readonly size?: "said"; readonly checksum?: "present" } = {}): Bytes {
  const [isSized, isSummed] = [marks.size === "said", marks.checksum === "present"];
  const head = new Uint8Array(isSized ? 9 : 6);
  const view = new DataView(head.buffer);
  view.setUint32(0, 0xfd2fb528, true);
  // Single segment with four bytes of size, or a window of a mebibyte.
  view.setUint8(4, (isSized ? 0xa0 : 0) | (isSummed ? 4 : 0));
  if (isSized) view.setUint32(5, content.byteLength, true);
  else view.setUint8(5, 0x50);
  const blockHeader = Uint8Array.from([0, 8, 16], (shift) => ((1 | (content.byteLength << 3)) >> shift) & 0xff);
  const checksum = new Uint8Array(isSummed ? 4 : 0);
  if (isSummed) new DataView(checksum.buffer).setUint32(0, Number(xxh64(content) & 0xffff_ffffn), true);
  return concatBytes([head, blockHeader, content, checksum]);
}

const SKIPPABLE = Uint8Array.from([0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3]);

describe("frames of a compressed block", () => {
  const content = words(4000);
  const [first, second] = [content.slice(0, 1500), content.slice(1500)];
  const read = (payload: Bytes): Promise<Bytes> => {
    const crafting = new Proxy(engine, {
      get(target, name) {
        if (name === "zstdCompress") return async () => payload;
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
    return readFile([{ path: "file", chunks: [content] }], { engine: crafting, compress: () => true });
  };

  it.each([
    ["without a content size", frame(content)],
    ["with a content size", frame(content, { size: "said" })],
    ["with a checksum", frame(content, { checksum: "present" })],
    ["two behind each other", concatBytes([frame(first), frame(second, { size: "said" })])],
    ["a skippable one in front", concatBytes([SKIPPABLE, frame(content)])],
    ["a skippable one between and behind", concatBytes([frame(first), SKIPPABLE, frame(second), SKIPPABLE])],
  ])("%s decode", async (_, payload) => {
    expect(await read(payload)).toEqual(content);
  });

  const damaged = frame(content, { checksum: "present" });
  damaged[damaged.byteLength - 1] = (damaged.at(-1) as number) ^ 1;
  it.each([
    ["a zero behind it", concatBytes([frame(content), Uint8Array.of(0)])],
    ["noise behind it", concatBytes([frame(content), xorshiftBytes(40, 5n)])],
    ["a wrong checksum", damaged],
    ["two frames that are too short together", concatBytes([frame(first), frame(second.slice(1))])],
    ["two frames that are too long together", concatBytes([frame(first), frame(content)])],
    ["a skippable frame that does not end", concatBytes([frame(content), SKIPPABLE.subarray(0, 10)])],
    ["nothing but a skippable frame", SKIPPABLE],
    ["a frame that was cut off", frame(content).slice(0, -1)],
  ])("%s is refused", async (_, payload) => {
    await expect(read(payload)).rejects.toMatchObject({ code: expect.stringMatching(/^(format|integrity|limit)\//) });
  });
});
