import { isMainThread } from "node:worker_threads";
import * as zlib from "node:zlib";
import { type Bytes, concatBytes } from "../../../base/bytes.ts";
import type { ZstdCodec } from "../../../primitives/compress/zstd.ts";
import type { Tier } from "../../../primitives/tiers.ts";

/** zstd in native code, best first: Node's own (22.15 and later), then the optional addon. */
export const NATIVE_ZSTD: readonly Tier<ZstdCodec>[] = [
  { tier: "native", implementation: "node:zlib", load: loadNodeZstd },
  { tier: "native", implementation: "@cloudpss/zstd", load: loadAddon },
];

/** The most bytes that the addon takes or returns at once. */
const ADDON_MAX_BYTES = 1 << 30;

type Callback = (error: Error | null, result: Buffer) => void;

/** The zstd functions of newer versions of node:zlib, which the types of the oldest supported Node lack. */
interface ZlibWithZstd {
  readonly constants: { readonly ZSTD_c_compressionLevel: number };
  zstdCompress(bytes: Bytes, options: object, callback: Callback): void;
  zstdDecompress(bytes: Bytes, options: object, callback: Callback): void;
}

/** Runs on a thread of Node's pool. Rejects on a Node without zstd. */
async function loadNodeZstd(): Promise<ZstdCodec> {
  const { zstdCompress, zstdDecompress, constants } = zlib as unknown as Partial<ZlibWithZstd>;
  if (zstdCompress === undefined || zstdDecompress === undefined || constants === undefined) {
    throw new Error("node:zlib has no zstd before Node 22.15");
  }
  return {
    compress: (bytes, level) => {
      const params = { [constants.ZSTD_c_compressionLevel]: level };
      // The pledged size goes into the frame header.
      return settle((done) => zstdCompress(bytes, { params, pledgedSrcSize: bytes.byteLength }, done));
    },
    decompress: (bytes, { frame, maxBytes }) => {
      // With a byte to spare, the whole output fits into one chunk. zlib accepts no less than 64.
      const chunkSize = Math.max(Math.min(maxBytes, frame.maxContentBytes) + 1, 64);
      return settle((done) => zstdDecompress(bytes, { maxOutputLength: Math.max(maxBytes, 1), chunkSize }, done));
    },
  };
}

function settle(start: (done: Callback) => void): Promise<Bytes> {
  return new Promise((resolve, reject) => {
    start((error, result) => (error === null ? resolve(ownBytes(result)) : reject(error)));
  });
}

/**
 * The addon is synchronous. Its plain functions share one context between all threads of the process, and memory is
 * damaged as soon as two threads use it at once. So only the main thread calls them, and every other thread has its own
 * contexts.
 */
async function loadAddon(): Promise<ZstdCodec> {
  const { loadZstdAddon } = await import("./addons.ts");
  const addon = await loadZstdAddon();
  if (!isMainThread) return threadCodec(addon);
  return {
    // It allocates the size that the frame declares, or a full block for each block.
    compress: (bytes, level) => ownBytes(addon.compress(addonInput(bytes), level)),
    decompress: (bytes) => ownBytes(addon.decompress(addonInput(bytes), ADDON_MAX_BYTES)),
  };
}

function addonInput(bytes: Bytes): Buffer {
  if (bytes.byteLength > ADDON_MAX_BYTES) throw new Error("longer than the addon takes");
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** Converts to our byte type. Small Buffers of Node share their memory with others and must not be returned. */
function ownBytes(bytes: Uint8Array): Bytes {
  const isWhole = bytes.byteLength === bytes.buffer.byteLength;
  return isWhole && bytes.buffer instanceof ArrayBuffer ? new Uint8Array(bytes.buffer) : new Uint8Array(bytes);
}

/** One stream of the addon @cloudpss/zstd; after `end` it begins another frame. */
interface AddonStream {
  data(bytes: Buffer, callback: (piece: Buffer) => void): void;
  end(callback: (piece: Buffer) => void): void;
}

/** The part of the addon whose contexts belong to one thread. */
export interface AddonBindings {
  readonly Compressor: new (level: number) => AddonStream;
  readonly Decompressor: new () => AddonStream;
}

/** Magic number, descriptor and window of a frame that does not declare its size (RFC 8878 §3.1.1). */
const UNSIZED_HEADER_BYTES = 6;
const DESCRIPTOR_AT = 4;
/** Descriptor: the size follows in four bytes. */
const SIZE_IN_FOUR = 0x80;

/**
 * zstd for a thread beside others. Contexts are kept: each takes some megabytes that the garbage collector does not
 * see. A context that failed is not used again.
 */
export function threadCodec({ Compressor, Decompressor }: AddonBindings): ZstdCodec {
  const compressors = new Map<number, AddonStream>();
  let decompressor: AddonStream | undefined;
  return {
    compress(bytes, level) {
      const stream = compressors.get(level) ?? new Compressor(level);
      compressors.delete(level);
      const frame = runStream(stream, bytes);
      compressors.set(level, stream);
      return declareSize(frame, bytes.byteLength);
    },
    decompress(bytes, { frame, maxBytes }) {
      const stream = decompressor ?? new Decompressor();
      decompressor = undefined;
      const content = concatBytes(runStream(stream, bytes));
      // A stream that returned less may wait for the rest of this frame, and would read the next frame as that rest.
      if (content.byteLength === (frame.contentBytes ?? maxBytes)) decompressor = stream;
      return content;
    },
  };
}

/** The output of a stream for `bytes`, in pieces that are already copies. */
function runStream(stream: AddonStream, bytes: Bytes): Bytes[] {
  const pieces: Bytes[] = [];
  const take = (piece: Buffer): void => {
    pieces.push(new Uint8Array(piece.buffer as ArrayBuffer, piece.byteOffset, piece.byteLength));
  };
  stream.data(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), take);
  stream.end(take);
  return pieces;
}

/** A stream does not know its length in advance; the size is written into the header afterwards. */
function declareSize(pieces: readonly Bytes[], byteLength: number): Bytes {
  const [first, ...rest] = pieces;
  if (first === undefined || first[DESCRIPTOR_AT] !== 0 || byteLength > 0xffff_ffff) return concatBytes(pieces);
  const size = new Uint8Array(4);
  new DataView(size.buffer).setUint32(0, byteLength, true);
  const frame = concatBytes([
    first.subarray(0, UNSIZED_HEADER_BYTES),
    size,
    first.subarray(UNSIZED_HEADER_BYTES),
    ...rest,
  ]);
  frame[DESCRIPTOR_AT] = SIZE_IN_FOUR;
  return frame;
}
