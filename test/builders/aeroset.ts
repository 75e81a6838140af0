import { createHash } from "node:crypto";
import type { Bytes } from "../../src/base/bytes.ts";
import { SourceError } from "../../src/base/errors.ts";
import { memorySource } from "../../src/bytes/memory.ts";
import { checkRelativeName, type ResolveOptions, type Resolver } from "../../src/bytes/resolver.ts";
import { type CountingSource, countingSource } from "../support/counting-source.ts";
import { type BuiltChunk, type BuiltTensor, b3, buildAero, hex, mjsn, mmsg, phsh, tidx, wtsh } from "./aero.ts";

/**
 * Sets put together from the specification: five tensors of four f32 values, one a shard, two shards a part. Of the code
 * under test it shares what the builder of AERO files shares.
 */
export interface BuiltSet {
  /** Numbers of the shards in the parts: as the specification has them, or from 0 in each as the reference writes them. */
  readonly ids?: "global" | "local";
  /** Where tensors have `hash_b3`. */
  readonly hashes?: readonly ("index" | "parts")[];
  readonly pages?: "pages";
  /** Other weights than those that the digests of tensors are of. */
  readonly weights?: (tensor: number) => Bytes;
  /** Another tensor index for a part; no chunk where null. */
  readonly partIndex?: (part: number, tensors: readonly BuiltTensor[]) => readonly BuiltTensor[] | null;
  /** Another global index. */
  readonly globalIndex?: (tensors: readonly BuiltTensor[]) => readonly BuiltTensor[];
  /** Changes the JSON before it is written. */
  readonly json?: (json: SetJson) => unknown;
}

export interface SetJson {
  format?: unknown;
  model?: unknown;
  base_url?: string;
  parts: { path: string; sha256?: string; size_bytes?: number; shards: number[] }[];
  global_tidx: { path: string; sha256?: string; size_bytes?: number };
}

export const SET_NAME = "model.aeroset.json";
export const TENSOR_COUNT = 5;
const SHARDS_PER_PART = 2;
const TENSOR_BYTES = 16;

/** The bytes of tensor `t{i}`: its number, and then what no other tensor has. */
export function setTensorBytes(i: number): Bytes {
  return new Uint8Array(Float32Array.of(i, i + 0.25, -i, 1 / (i + 1)).buffer);
}

const sha256 = (bytes: Bytes): string => createHash("sha256").update(bytes).digest("hex");

/** Every file of the set by name. */
export function buildSet(options: BuiltSet = {}): Map<string, Bytes> {
  const { hashes = [], ids = "global", weights = setTensorBytes } = options;
  const files = new Map<string, Bytes>();
  const json: SetJson = {
    format: { name: "AEROSET", version: [0, 1] },
    model: { name: "five", architecture: "linear" },
    parts: [],
    global_tidx: { path: "index.aero" },
  };
  const hashOf = (i: number, where: "index" | "parts"): Partial<BuiltTensor> =>
    hashes.includes(where) ? { more: { hash_b3: hex(b3(setTensorBytes(i))) } } : {};
  const global: BuiltTensor[] = [];
  for (let first = 0; first < TENSOR_COUNT; first += SHARDS_PER_PART) {
    const numbers = [first, first + 1].filter((i) => i < TENSOR_COUNT);
    const number = first / SHARDS_PER_PART;
    const local = numbers.map((i) => tensor(i, ids === "global" ? i : i - first, hashOf(i, "parts")));
    global.push(...numbers.map((i) => tensor(i, i, hashOf(i, "index"))));
    const shards = numbers.map((i) => wtsh(weights(i), ids === "global" ? i : i - first));
    const path = `part-${String(number).padStart(3, "0")}.aero`;
    const bytes = buildAero({ chunks: partChunks(options, number, local, shards) });
    files.set(path, bytes);
    json.parts.push({ path, sha256: sha256(bytes), size_bytes: bytes.byteLength, shards: numbers });
  }
  const index = buildAero({ chunks: [mmsg("five"), tidx(options.globalIndex?.(global) ?? global)] });
  files.set("index.aero", index);
  json.global_tidx = { path: "index.aero", sha256: sha256(index), size_bytes: index.byteLength };
  const stated = options.json === undefined ? json : options.json(json);
  files.set(SET_NAME, new TextEncoder().encode(JSON.stringify(stated, null, 2)));
  return files;
}

function tensor(i: number, shard: number, more: Partial<BuiltTensor>): BuiltTensor {
  return { name: `t${i}`, shape: [4], shard, off: 0, len: TENSOR_BYTES, ...more };
}

function partChunks(
  options: BuiltSet,
  part: number,
  tensors: readonly BuiltTensor[],
  shards: readonly BuiltChunk[],
): BuiltChunk[] {
  const index = options.partIndex === undefined ? tensors : options.partIndex(part, tensors);
  return [
    mjsn({ model_name: "five" }),
    mmsg("five"),
    ...(index === null ? [] : [tidx(index)]),
    ...(options.pages === undefined ? [] : shards.map((shard) => phsh(shard, 8))),
    ...shards,
  ];
}

/** A folder in memory that counts what is read of each file it opened. */
export interface CountedFolder extends Resolver {
  /** By name, in the order of opening. */
  readonly opened: readonly {
    readonly name: string;
    readonly source: CountingSource;
    readonly options: ResolveOptions;
  }[];
}

/** Resolves siblings as a folder would; `urls` are what it can reach by full address. */
export function countedFolder(files: ReadonlyMap<string, Bytes>, urls?: ReadonlyMap<string, Bytes>): CountedFolder {
  const opened: { name: string; source: CountingSource; options: ResolveOptions }[] = [];
  const open = (from: ReadonlyMap<string, Bytes>, name: string, options: ResolveOptions): CountingSource => {
    const bytes = from.get(name);
    if (bytes === undefined) throw new SourceError("source/not-found", "Cannot find it", { source: name });
    const source = countingSource(memorySource(bytes, name));
    opened.push({ name, source, options });
    return source;
  };
  return {
    name: SET_NAME,
    opened,
    async resolve(name, options = {}) {
      checkRelativeName(name, { source: SET_NAME });
      return open(files, name, options);
    },
    ...(urls === undefined
      ? {}
      : {
          async resolveUrl(url: string, options: ResolveOptions = {}) {
            return open(urls, url, options);
          },
        }),
  };
}
