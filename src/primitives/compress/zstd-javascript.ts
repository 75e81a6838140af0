import { type Bytes, concatBytes } from "../../base/bytes.ts";
import type { ZstdCodec } from "./zstd.ts";
import { decodeZstdContent } from "./zstd-decoder.ts";
import { MAX_BLOCK_BYTES, ZSTD_MAGIC } from "./zstd-frame.ts";

/** zstd in plain TypeScript. It decodes everything and compresses nothing: its frames hold the bytes as they are. */
export const zstdJavascript: ZstdCodec = {
  compress: encodeStoredFrame,
  decompress: decodeZstdContent,
};

/** RFC 8878 section 3.1.1: a single-segment frame with an 8-byte size and raw blocks. */
function encodeStoredFrame(bytes: Bytes): Bytes {
  const header = new Uint8Array(13);
  const view = new DataView(header.buffer);
  view.setUint32(0, ZSTD_MAGIC, true);
  view.setUint8(4, 0xe0); // size field of 8 bytes, single segment
  view.setBigUint64(5, BigInt(bytes.byteLength), true);
  const pieces: Bytes[] = [header];
  // At least one block, so that an empty frame has its last one too.
  for (let start = 0; start === 0 || start < bytes.byteLength; start += MAX_BLOCK_BYTES) {
    const content = bytes.subarray(start, start + MAX_BLOCK_BYTES);
    const isLast = start + MAX_BLOCK_BYTES >= bytes.byteLength;
    const word = (content.byteLength << 3) | (isLast ? 1 : 0);
    pieces.push(Uint8Array.of(word & 0xff, (word >> 8) & 0xff, word >> 16), content);
  }
  return concatBytes(pieces);
}
