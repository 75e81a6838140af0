import type { Bytes } from "../../base/bytes.ts";
import { FormatError, type Location } from "../../base/errors.ts";

/**
 * Raw LZ4 blocks, without a frame. Synchronous, because a block has a few kilobytes and a tensor has thousands of
 * blocks. Refuses a match offset of zero, although liblz4 accepts it: it would copy bytes that were never written.
 */
export interface Lz4Codec {
  /** Fills `into` exactly; FormatError `format/lz4.block` if the block is malformed or has another length. */
  decode(block: Bytes, into: Bytes, at: Location): void;
  /** Writes a block to the start of `into` and returns its length; undefined if it does not fit. */
  encode(bytes: Bytes, into: Bytes): number | undefined;
}

/** The longest block that this many raw bytes can give. */
export function lz4Bound(byteLength: number): number {
  return byteLength + Math.floor(byteLength / 255) + 16;
}

export function lz4Error(block: Bytes, wanted: number, at: Location): FormatError {
  const message = `Cannot decode an LZ4 block of ${block.byteLength} bytes: it must hold exactly ${wanted} bytes and is malformed or holds another number`;
  return new FormatError("format/lz4.block", message, at);
}

/** "abcabcabc…" followed by bytes without matches must survive a round trip, and a known block must decode. */
export function provesLz4(codec: Lz4Codec): boolean {
  const at = { source: "engine" };
  const raw = Uint8Array.from({ length: 1000 }, (_, i) => (i < 500 ? 97 + (i % 3) : (i * i * 31) >> 3));
  const room = new Uint8Array(lz4Bound(raw.byteLength));
  const byteLength = codec.encode(raw, room);
  if (byteLength === undefined) return false;
  const back = new Uint8Array(raw.byteLength);
  codec.decode(room.subarray(0, byteLength), back, at);
  // Written by hand from the block format: a run of "a" from one literal, and five literals at the end.
  const known = Uint8Array.from([0x1f, 0x61, 1, 0, 0, 0x50, 0x62, 0x63, 0x64, 0x65, 0x66]);
  const text = new Uint8Array(25);
  codec.decode(known, text, at);
  return raw.every((byte, i) => back[i] === byte) && text.every((byte, i) => byte === (i < 20 ? 0x61 : 0x4e + i));
}

const MIN_MATCH = 4;
const LAST_LITERALS = 5;
const MATCH_LIMIT = 12;
const HASH_BITS = 14;
const MAX_OFFSET = 0xffff;

/** The codec in plain TypeScript, for blocks of any length, and for hosts that do not allow WebAssembly. */
export const lz4Javascript: Lz4Codec = {
  decode(block: Bytes, into: Bytes, at: Location): void {
    if (decodeBlock(block, into) !== into.byteLength) throw lz4Error(block, into.byteLength, at);
  },
  encode(bytes: Bytes, into: Bytes): number | undefined {
    if (into.byteLength >= lz4Bound(bytes.byteLength)) return encodeBlock(bytes, into);
    const room = new Uint8Array(lz4Bound(bytes.byteLength));
    const byteLength = encodeBlock(bytes, room);
    if (byteLength > into.byteLength) return undefined;
    into.set(room.subarray(0, byteLength));
    return byteLength;
  },
};

/** The number of bytes decoded; -1 if the block is malformed. */
function decodeBlock(block: Bytes, into: Bytes): number {
  const last = block.byteLength;
  let from = 0;
  let to = 0;
  let matched = false;
  while (from < last) {
    const token = block[from++] as number;
    let literals = token >> 4;
    if (literals === 15) {
      for (let more = 255; more === 255; literals += more) {
        if (from >= last) return -1;
        more = block[from++] as number;
      }
    }
    if (from + literals > last || to + literals > into.byteLength) return -1;
    copyForward(block, from, literals, into, to);
    from += literals;
    to += literals;
    if (from === last) return matched && literals < LAST_LITERALS ? -1 : to;
    if (from + 2 > last) return -1;
    const offset = (block[from] as number) | ((block[from + 1] as number) << 8);
    from += 2;
    if (offset === 0 || offset > to) return -1;
    let length = (token & 15) + MIN_MATCH;
    if (length === 15 + MIN_MATCH) {
      for (let more = 255; more === 255; length += more) {
        if (from >= last) return -1;
        more = block[from++] as number;
      }
    }
    if (to + length > into.byteLength) return -1;
    copyMatch(into, to, offset, length);
    to += length;
    matched = true;
  }
  return -1;
}

/** Copies short runs byte by byte: calling a built-in costs as much as copying thirty bytes. */
function copyForward(block: Bytes, from: number, length: number, into: Bytes, to: number): void {
  if (length > 32) into.set(block.subarray(from, from + length), to);
  else for (let i = 0; i < length; i++) into[to + i] = block[from + i] as number;
}

function copyMatch(into: Bytes, to: number, offset: number, length: number): void {
  if (offset >= length && length > 32) into.copyWithin(to, to - offset, to - offset + length);
  else for (let i = 0; i < length; i++) into[to + i] = into[to + i - offset] as number;
}

function encodeBlock(bytes: Bytes, into: Bytes): number {
  const { byteLength } = bytes;
  let to = 0;
  let anchor = 0;
  if (byteLength > MATCH_LIMIT) {
    const table = new Int32Array(1 << HASH_BITS).fill(-1);
    const matchLimit = byteLength - MATCH_LIMIT;
    let misses = 1 << 6;
    for (let at = 0; at <= matchLimit; ) {
      const word = wordAt(bytes, at);
      const slot = Math.imul(word, 2654435761) >>> (32 - HASH_BITS);
      const seen = table[slot] as number;
      table[slot] = at;
      if (seen < 0 || at - seen > MAX_OFFSET || wordAt(bytes, seen) !== word) {
        at += misses++ >> 6; // skip faster and faster over input that does not compress
        continue;
      }
      misses = 1 << 6;
      const length = matchLength(bytes, seen, at);
      to = putSequence(bytes, { anchor, at, offset: at - seen, length }, into, to);
      at += length;
      anchor = at;
    }
  }
  const literals = byteLength - anchor;
  into[to++] = Math.min(literals, 15) << 4;
  to = putLength(into, to, literals);
  into.set(bytes.subarray(anchor), to);
  return to + literals;
}

function matchLength(bytes: Bytes, seen: number, at: number): number {
  const most = bytes.byteLength - LAST_LITERALS - at;
  let length = MIN_MATCH;
  while (length < most && bytes[seen + length] === bytes[at + length]) length++;
  return length;
}

interface Sequence {
  readonly anchor: number;
  readonly at: number;
  readonly offset: number;
  readonly length: number;
}

function putSequence(bytes: Bytes, { anchor, at, offset, length }: Sequence, into: Bytes, start: number): number {
  const literals = at - anchor;
  let to = start;
  into[to++] = (Math.min(literals, 15) << 4) | Math.min(length - MIN_MATCH, 15);
  to = putLength(into, to, literals);
  copyForward(bytes, anchor, literals, into, to);
  to += literals;
  into[to++] = offset & 255;
  into[to++] = offset >> 8;
  return putLength(into, to, length - MIN_MATCH);
}

function putLength(into: Bytes, start: number, length: number): number {
  if (length < 15) return start;
  let to = start;
  let rest = length - 15;
  for (; rest >= 255; rest -= 255) into[to++] = 255;
  into[to++] = rest;
  return to;
}

function wordAt(bytes: Bytes, at: number): number {
  return (
    (bytes[at] as number) |
    ((bytes[at + 1] as number) << 8) |
    ((bytes[at + 2] as number) << 16) |
    ((bytes[at + 3] as number) << 24)
  );
}
