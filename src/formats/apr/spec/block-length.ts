import type { Bytes } from "../../../base/bytes.ts";

/**
 * How many bytes an LZ4 block would give, by its tokens alone; undefined where they run beyond the block or the result
 * beyond `max`. Offsets of matches are not judged: whoever decodes the block does that. The block format: a token with
 * two nibbles, more length bytes where a nibble is 15, literals, then a u16 offset and a match of at least 4 bytes,
 * except behind the last literals.
 */
export function lz4RawLength(block: Bytes, max: number): number | undefined {
  const end = block.byteLength;
  let position = 0;
  let total = 0;
  while (position < end) {
    const token = block[position++] as number;
    let literals = token >> 4;
    if (literals === 15) {
      for (let more = 255; more === 255; literals += more) {
        if (position >= end) return undefined;
        more = block[position++] as number;
      }
    }
    position += literals;
    total += literals;
    if (position > end || total > max) return undefined;
    if (position === end) return total;
    position += 2;
    if (position > end) return undefined;
    let match = (token & 15) + 4;
    if ((token & 15) === 15) {
      for (let more = 255; more === 255; match += more) {
        if (position >= end) return undefined;
        more = block[position++] as number;
      }
    }
    total += match;
    if (total > max) return undefined;
  }
  // The last sequence has no match, so a block cannot end behind one.
  return undefined;
}
