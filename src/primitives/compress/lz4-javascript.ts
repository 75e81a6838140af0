import type { Bytes } from "../../base/bytes.ts";
import type { Location } from "../../base/errors.ts";
import { type Lz4Codec, lz4Bound, lz4Error } from "./lz4.ts";

const MIN_MATCH = 4;
const LAST_LITERALS = 5;
const MATCH_LIMIT = 12;
const HASH_BITS = 14;
const MAX_OFFSET = 0xffff;

/** The codec in plain TypeScript: for blocks of any length, and where WebAssembly is not allowed. */
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

/** The number of bytes decoded; -1 where the block is malformed. */
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

/** Short runs byte by byte: calling a built-in costs as much as copying thirty of them. */
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
        at += misses++ >> 6; // what does not compress is passed over faster and faster
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
