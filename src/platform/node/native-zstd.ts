import { isMainThread } from "node:worker_threads";
import * as zlib from "node:zlib";
import type { Bytes } from "../../base/bytes.ts";
import type { ZstdCodec } from "../../primitives/compress/zstd.ts";
import type { Tier } from "../../primitives/tiers.ts";
import { threadCodec } from "./thread-zstd.ts";

/** zstd in machine code, best first: Node's own (22.15 and later), then the optional addon. */
export const NATIVE_ZSTD: readonly Tier<ZstdCodec>[] = [
  { tier: "native", implementation: "node:zlib", load: loadNodeZstd },
  { tier: "native", implementation: "@cloudpss/zstd", load: loadAddon },
];

/** The addon takes and gives no more at once. */
const ADDON_MAX_BYTES = 1 << 30;

type Callback = (error: Error | null, result: Buffer) => void;

/** What newer versions of node:zlib have beyond the types of the oldest that is supported. */
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
      // The pledge puts the size into the frame header.
      return settle((done) => zstdCompress(bytes, { params, pledgedSrcSize: bytes.byteLength }, done));
    },
    decompress: (bytes, { frame, maxBytes }) => {
      // A chunk with a byte to spare takes the whole output in one piece. 64 is the least that zlib accepts.
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
 * The addon is synchronous. Its plain functions share one context between all threads of the process, which damages memory
 * as soon as two use it at once; so only the main thread calls them, and every other thread has contexts of its own.
 */
async function loadAddon(): Promise<ZstdCodec> {
  const { loadZstdAddon } = await import("./zstd-addon.ts");
  const addon = await loadZstdAddon();
  if (!isMainThread) return threadCodec(addon);
  return {
    // It allocates what the frame declares, or a full block for each block.
    compress: (bytes, level) => ownBytes(addon.compress(addonInput(bytes), level)),
    decompress: (bytes) => ownBytes(addon.decompress(addonInput(bytes), ADDON_MAX_BYTES)),
  };
}

function addonInput(bytes: Bytes): Buffer {
  if (bytes.byteLength > ADDON_MAX_BYTES) throw new Error("longer than the addon takes");
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** Our byte type; small Buffers of Node share their memory with others and must not be handed out. */
function ownBytes(bytes: Uint8Array): Bytes {
  const isWhole = bytes.byteLength === bytes.buffer.byteLength;
  return isWhole && bytes.buffer instanceof ArrayBuffer ? new Uint8Array(bytes.buffer) : new Uint8Array(bytes);
}
