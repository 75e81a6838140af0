import { type Bytes, concatBytes } from "../../src/base/bytes.ts";
import { blake3 } from "../../src/primitives/digest/blake3.ts";
import { blake3Javascript } from "../../src/primitives/digest/blake3-javascript.ts";

/**
 * AERO files put together byte by byte from the tables of the specification, so that tests can say anything a file
 * might say, right or wrong. Of the code under test it shares only BLAKE3, which has vectors of its own.
 */

const encoder = new TextEncoder();

export function b3(bytes: Bytes): Bytes {
  const hasher = blake3(blake3Javascript).create();
  hasher.update(bytes);
  return hasher.digest();
}

export function hex(bytes: Bytes): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Anything MessagePack can say; `raw` stands for itself. */
export type Packed =
  | null
  | boolean
  | number
  | bigint
  | string
  | Bytes
  | readonly Packed[]
  | { readonly raw: Bytes }
  | { readonly pairs: readonly (readonly [Packed, Packed])[] };

export function map(members: Readonly<Record<string, Packed>>): { readonly pairs: readonly [string, Packed][] } {
  return { pairs: Object.entries(members) };
}

export function pack(value: Packed): Bytes {
  if (value === null) return Uint8Array.of(0xc0);
  if (typeof value === "boolean") return Uint8Array.of(value ? 0xc3 : 0xc2);
  if (typeof value === "number" || typeof value === "bigint") return packInteger(BigInt(value));
  if (typeof value === "string") {
    const text = encoder.encode(value);
    return concatBytes([length(text.byteLength, [0xa0, 32], [0xd9, 0xda, 0xdb]), text]);
  }
  if (value instanceof Uint8Array) return concatBytes([length(value.byteLength, [0, 0], [0xc4, 0xc5, 0xc6]), value]);
  if ("raw" in value) return value.raw;
  if ("pairs" in value) {
    const head = length(value.pairs.length, [0x80, 16], [0, 0xde, 0xdf]);
    return concatBytes([head, ...value.pairs.flatMap(([key, item]) => [pack(key), pack(item)])]);
  }
  return concatBytes([length(value.length, [0x90, 16], [0, 0xdc, 0xdd]), ...value.map(pack)]);
}

/** The shortest head for a count: `[base, room]` in the head itself, else with 1, 2 or 4 bytes; 0 is no such form. */
function length(
  count: number,
  [base, room]: readonly [number, number],
  [one, two, four]: readonly [number, number, number],
): Bytes {
  if (count < room) return Uint8Array.of(base + count);
  if (one !== 0 && count < 0x100) return Uint8Array.of(one, count);
  if (count < 0x10000) return Uint8Array.of(two, count >> 8, count & 0xff);
  return concatBytes([Uint8Array.of(four), big(BigInt(count), 4)]);
}

function packInteger(value: bigint): Bytes {
  if (value >= 0n && value < 0x80n) return Uint8Array.of(Number(value));
  if (value >= -32n && value < 0n) return Uint8Array.of(Number(256n + value));
  for (const [head, bytes] of value < 0n ? SIGNED : UNSIGNED) {
    const bits = BigInt(8 * bytes);
    const fits = value < 0n ? value >= -(1n << (bits - 1n)) : value < 1n << bits;
    if (fits) return concatBytes([Uint8Array.of(head), big(value, bytes)]);
  }
  throw new Error(`${value} has no MessagePack form`);
}

const UNSIGNED = [
  [0xcc, 1],
  [0xcd, 2],
  [0xce, 4],
  [0xcf, 8],
] as const;
const SIGNED = [
  [0xd0, 1],
  [0xd1, 2],
  [0xd2, 4],
  [0xd3, 8],
] as const;

/** Big-endian, two's complement. */
function big(value: bigint, byteLength: number): Bytes {
  return Uint8Array.from({ length: byteLength }, (_, i) => Number((value >> BigInt(8 * (byteLength - 1 - i))) & 0xffn));
}

function little(value: number | bigint, byteLength: number): Bytes {
  return big(BigInt(value), byteLength).reverse();
}

/** A zstd frame of raw blocks (RFC 8878, 3.1.1): "sized" declares its content size, "unsized" a window of 1 MiB. */
export function zstdFrame(content: Bytes, form: "sized" | "unsized" = "sized"): Bytes {
  const magic = little(0xfd2fb528, 4);
  const header = form === "sized" ? [Uint8Array.of(0xa0), little(content.byteLength, 4)] : [Uint8Array.of(0x00, 0x50)];
  const blocks: Bytes[] = [];
  const BLOCK = 100_000;
  for (let start = 0; start === 0 || start < content.byteLength; start += BLOCK) {
    const block = content.subarray(start, start + BLOCK);
    const isLast = start + BLOCK >= content.byteLength ? 1 : 0;
    blocks.push(little(block.byteLength * 8 + isLast, 3), block);
  }
  return concatBytes([magic, ...header, ...blocks]);
}

/** A frame of one RLE block that expands to `byteLength` zeros, and declares `declared`. */
export function zstdBomb(byteLength: number, declared: number | undefined): Bytes {
  const header =
    declared === undefined ? Uint8Array.of(0x00, 0x50) : concatBytes([Uint8Array.of(0xa0), little(declared, 4)]);
  const blocks: Bytes[] = [];
  for (let left = byteLength; left > 0; left -= 0x20000) {
    const size = Math.min(left, 0x20000);
    blocks.push(little(size * 8 + 2 + (left <= 0x20000 ? 1 : 0), 3), Uint8Array.of(0));
  }
  return concatBytes([little(0xfd2fb528, 4), header, ...blocks]);
}

export interface BuiltChunk {
  readonly fourcc: string | Bytes;
  readonly name: string | Bytes;
  readonly flags?: number;
  /** The bytes that the digest covers. */
  readonly content: Bytes;
  /** What stands in the file, where that is not `content`. */
  readonly stored?: Bytes;
  readonly ulen?: number | bigint;
  readonly hash?: Bytes;
  readonly offset?: number | bigint;
  readonly length?: number | bigint;
  readonly nameOff?: number;
  readonly nameLen?: number;
  readonly reserved?: number;
}

export interface BuiltAero {
  readonly chunks?: readonly BuiltChunk[];
  readonly magic?: string;
  readonly version?: readonly [number, number];
  readonly headerSize?: number;
  readonly tocOffset?: number | bigint;
  readonly tocLength?: number | bigint;
  readonly namesOffset?: number | bigint;
  readonly namesLength?: number | bigint;
  readonly fileFlags?: number;
  readonly reserved?: number;
  readonly tocReserved?: number;
  readonly entryCount?: number;
  readonly trailing?: Bytes;
  /** Zeros before each chunk's place is rounded up: makes files in which things lie far apart. */
  readonly gaps?: readonly number[];
}

const up = (value: number, alignment: number): number => Math.ceil(value / alignment) * alignment;

/** The layout of the reference writer: header, TOC, names, then the chunks on multiples of 16. */
export function buildAero(file: BuiltAero = {}): Bytes {
  const { chunks = [], gaps = [] } = file;
  const names = concatBytes(chunks.flatMap(({ name }) => [asBytes(name), Uint8Array.of(0)]));
  const namesLength = up(names.byteLength, 8);
  const namesOffset = 112 + 80 * chunks.length;
  const places: number[] = [];
  let end = namesOffset + namesLength;
  for (const [i, chunk] of chunks.entries()) {
    places.push(up(end + (gaps[i] ?? 0), 16));
    end = (places[i] as number) + (chunk.stored ?? chunk.content).byteLength;
  }
  const bytes = new Uint8Array(end);
  bytes.set(header(file, chunks.length, namesOffset, namesLength));
  bytes.set(little(file.entryCount ?? chunks.length, 4), 96);
  bytes.set(little(file.tocReserved ?? 0, 4), 100);
  let nameOff = 0;
  for (const [i, chunk] of chunks.entries()) {
    const place = places[i] as number;
    bytes.set(entry(chunk, place, nameOff), 112 + 80 * i);
    bytes.set(chunk.stored ?? chunk.content, place);
    nameOff += asBytes(chunk.name).byteLength + 1;
  }
  bytes.set(names, namesOffset);
  return file.trailing === undefined ? bytes : concatBytes([bytes, file.trailing]);
}

function header(file: BuiltAero, count: number, namesOffset: number, namesLength: number): Bytes {
  const [major, minor] = file.version ?? [0, 1];
  return concatBytes([
    encoder.encode(file.magic ?? "AERO"),
    little(major, 2),
    little(minor, 2),
    little(file.headerSize ?? 96, 4),
    little(file.tocOffset ?? 96, 8),
    little(file.tocLength ?? 16 + 80 * count, 8),
    little(file.namesOffset ?? namesOffset, 8),
    little(file.namesLength ?? namesLength, 8),
    little(file.fileFlags ?? 0, 8),
    new Uint8Array(16).fill(0x11),
    new Uint8Array(28).fill(file.reserved ?? 0),
  ]);
}

function entry(chunk: BuiltChunk, place: number, nameOff: number): Bytes {
  const stored = chunk.stored ?? chunk.content;
  return concatBytes([
    asBytes(chunk.fourcc),
    little(chunk.flags ?? 0, 4),
    little(chunk.offset ?? place, 8),
    little(chunk.length ?? stored.byteLength, 8),
    little(chunk.ulen ?? chunk.content.byteLength, 8),
    little(chunk.nameOff ?? nameOff, 4),
    little(chunk.nameLen ?? asBytes(chunk.name).byteLength, 4),
    little(chunk.reserved ?? 0, 8),
    chunk.hash ?? b3(chunk.content),
  ]);
}

function asBytes(text: string | Bytes): Bytes {
  return typeof text === "string" ? encoder.encode(text) : text;
}

/** Marks a chunk as compressed, with its content in a frame. */
export function compressed(chunk: BuiltChunk, form: "sized" | "unsized" = "sized"): BuiltChunk {
  return { ...chunk, flags: (chunk.flags ?? 0) | 1, stored: chunk.stored ?? zstdFrame(chunk.content, form) };
}

export interface BuiltTensor {
  readonly name: string;
  /** f32 where absent. */
  readonly dtype?: Packed;
  readonly shape?: readonly Packed[];
  readonly shard?: Packed;
  readonly off?: Packed;
  readonly len?: Packed;
  /** Further keys. */
  readonly more?: Readonly<Record<string, Packed>>;
  /** Keys to leave out. */
  readonly without?: readonly string[];
}

export function tensorEntry(tensor: BuiltTensor): Packed {
  const { name, dtype = 1, shape = [3], shard = 0, off = 0, len = 12, more = {}, without = [] } = tensor;
  const members = { name, dtype, shape, shard_id: shard, data_off: off, data_len: len, flags: 0, ...more };
  return map(Object.fromEntries(Object.entries(members).filter(([key]) => !without.includes(key))));
}

export function tidx(tensors: readonly BuiltTensor[]): BuiltChunk {
  return tidxOf(map({ tensors: tensors.map(tensorEntry) }));
}

export function tidxOf(root: Packed): BuiltChunk {
  return { fourcc: "TIDX", name: "tensors", flags: 4, content: pack(root) };
}

export function mjsn(value: unknown): BuiltChunk {
  return { fourcc: "MJSN", name: "meta.json", content: encoder.encode(JSON.stringify(value)) };
}

export function mmsg(name = "test", architecture = "linear"): BuiltChunk {
  const format = map({ name: "AERO", version: [0, 1] });
  const root = map({ format, model: map({ name, architecture }), chunks: [], shards: [] });
  return { fourcc: "MMSG", name: "manifest", content: pack(root) };
}

export function wtsh(content: Bytes, id = 0): BuiltChunk {
  return { fourcc: "WTSH", name: `weights.shard${id}`, flags: 2, content };
}

/** Page digests of a shard. */
export function phsh(shard: BuiltChunk, pageSize: number, change: Readonly<Record<string, Packed>> = {}): BuiltChunk {
  const digests: Bytes[] = [];
  for (let start = 0; start < shard.content.byteLength; start += pageSize) {
    digests.push(b3(shard.content.subarray(start, start + pageSize)));
  }
  const members = { shard_name: String(shard.name), page_size: pageSize, digests, ...change };
  return { fourcc: "PHSH", name: `${String(shard.name)}.phsh`, flags: 8, content: pack(map(members)) };
}

/** What an IHSH chunk may be told to say otherwise. */
export interface ControlHashOptions {
  readonly algo?: string;
  readonly ranges?: (payloadsStart: number) => readonly (readonly [number, number])[];
  /** Length of the chunk; as long as its content where absent. */
  readonly paddedTo?: number;
  /** Further keys. */
  readonly more?: Readonly<Record<string, Packed>>;
  /** Bytes after the value, in front of the padding. */
  readonly tail?: Bytes;
}

/** The file with an IHSH chunk in front (AIP-0001): the digest is over the region as it will be. */
export function withControlHash(file: BuiltAero, options: ControlHashOptions = {}): Bytes {
  const build = (digest: Bytes, ranges: readonly (readonly [number, number])[]): Bytes => {
    const root = map({ algo: options.algo ?? "blake3-256", covered_ranges: ranges, digest, ...options.more });
    const value = concatBytes([pack(root), options.tail ?? new Uint8Array()]);
    const content = new Uint8Array(options.paddedTo ?? value.byteLength);
    content.set(value);
    const chunk: BuiltChunk = { fourcc: "IHSH", name: "control.integrity", flags: 8, content };
    return buildAero({ ...file, chunks: [chunk, ...(file.chunks ?? [])] });
  };
  const draft = build(new Uint8Array(32), [[0, 0xffff]]);
  const payloadsStart = Number(new DataView(draft.buffer).getBigUint64(112 + 8, true));
  const ranges = options.ranges?.(payloadsStart) ?? [[0, payloadsStart]];
  const region = build(new Uint8Array(32), ranges);
  for (let i = 0; i <= (file.chunks ?? []).length; i++) region.fill(0, 112 + 80 * i + 48, 112 + 80 * i + 80);
  return build(b3(concatBytes(ranges.map(([start, end]) => region.slice(start, end)))), ranges);
}

/** f32 values 1, 2, 3: the weights of most tests. */
export const ONE_TWO_THREE: Bytes = new Uint8Array(Float32Array.of(1, 2, 3).buffer);

/** A file of one tensor "w" with those weights, as most tests want it. */
export function smallAero(change: Partial<BuiltTensor> = {}): readonly BuiltChunk[] {
  return [
    mjsn({ model_name: "m" }),
    compressed(mmsg()),
    compressed(tidx([{ name: "w", ...change }])),
    wtsh(ONE_TWO_THREE),
  ];
}
