import type { Bytes } from "../../base/bytes.ts";
import { FormatError, type Location } from "../../base/errors.ts";

/**
 * Raw LZ4 blocks, without a frame. Synchronous: a block has a few kilobytes, and whoever decodes a tensor decodes
 * thousands. A match offset of zero is refused, although liblz4 lets it through: it means bytes that nobody wrote.
 */
export interface Lz4Codec {
  /** Fills `into` exactly; FormatError `format/lz4.block` where the block is malformed or has another length. */
  decode(block: Bytes, into: Bytes, at: Location): void;
  /** Writes a block to the front of `into` and returns its length; undefined where it does not fit. */
  encode(bytes: Bytes, into: Bytes): number | undefined;
}

/** Most bytes that a block of so many raw bytes can take. */
export function lz4Bound(byteLength: number): number {
  return byteLength + Math.floor(byteLength / 255) + 16;
}

export function lz4Error(block: Bytes, wanted: number, at: Location): FormatError {
  const message = `Cannot decode an LZ4 block of ${block.byteLength} bytes: it must hold exactly ${wanted} bytes and is malformed or holds another number`;
  return new FormatError("format/lz4.block", message, at);
}

/** A block of "abcabcabc…" and one that no match shortens must come back. */
export function provesLz4(codec: Lz4Codec): boolean {
  const at = { source: "engine" };
  const raw = Uint8Array.from({ length: 1000 }, (_, i) => (i < 500 ? 97 + (i % 3) : (i * i * 31) >> 3));
  const room = new Uint8Array(lz4Bound(raw.byteLength));
  const byteLength = codec.encode(raw, room);
  if (byteLength === undefined) return false;
  const back = new Uint8Array(raw.byteLength);
  codec.decode(room.subarray(0, byteLength), back, at);
  // "aaaa…" of 24 from one literal, and five literals at the end: written by hand from the block format.
  const known = Uint8Array.from([0x1f, 0x61, 1, 0, 0, 0x50, 0x62, 0x63, 0x64, 0x65, 0x66]);
  const text = new Uint8Array(25);
  codec.decode(known, text, at);
  return raw.every((byte, i) => back[i] === byte) && text.every((byte, i) => byte === (i < 20 ? 0x61 : 0x4e + i));
}
