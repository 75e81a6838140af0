import { type Bytes, startsWith } from "../../src/base/bytes.ts";
import { crc32Javascript } from "../../src/primitives/digest/crc32.ts";
import { BYTE_MUTATIONS, interestingNumber, putNumber } from "./byte-mutations.ts";
import type { Random } from "./random.ts";

const HEADER_BYTES = 64;
const CRC_OFFSET = 56;
const DESCRIPTOR_BYTES = 32;
/** Offset and width of the header's fields behind the version. */
const FIELDS: readonly (readonly [number, number])[] = [
  ...[8, 12, 16, 20, 24, 28, 32, 36].map((offset) => [offset, 4] as const),
  [40, 8],
  [48, 8],
];
/** Offset and width of a descriptor's fields. */
const DESCRIPTOR_FIELDS: readonly (readonly [number, number])[] = [
  [4, 1],
  [5, 1],
  [6, 2],
  [8, 4],
  [12, 4],
  [16, 4],
  [24, 8],
];

/** Changes a field and makes the header's checksum right again: else no change would get further than that. */
export function mutateEmbd(bytes: Bytes, random: Random): Bytes | undefined {
  if (!startsWith(bytes, [0x45, 0x4d, 0x42, 0x44]) || bytes.byteLength < HEADER_BYTES) return undefined;
  const changed = change(bytes, random);
  if (changed.byteLength < HEADER_BYTES) return changed;
  // Where lengths changed, the total usually should, or nothing but it would ever be refused.
  if (changed.byteLength !== bytes.byteLength && !random.oneIn(4)) {
    putNumber(changed, 48, 8, BigInt(changed.byteLength));
  }
  putNumber(changed, CRC_OFFSET, 4, BigInt(crc32Javascript(changed.subarray(0, CRC_OFFSET), 0)));
  return changed;
}

function change(bytes: Bytes, random: Random): Bytes {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const copy = bytes.slice();
  switch (random.below(4)) {
    case 0: {
      const [offset, width] = random.pick(FIELDS);
      putNumber(copy, offset, width, near(view, offset, random));
      return copy;
    }
    case 1: {
      const index = view.getUint32(28, true) + DESCRIPTOR_BYTES * random.below(Math.min(view.getUint32(32, true), 16));
      const [offset, width] = random.pick(DESCRIPTOR_FIELDS);
      putNumber(copy, index + offset, width, interestingNumber(bytes.byteLength, random));
      return copy;
    }
    case 2: {
      // Counts and offsets at the beginning of metadata and vocabulary.
      const section = view.getUint32(random.pick([12, 20]), true) + random.pick([0, 4, 8, 12]);
      putNumber(copy, section, random.pick([2, 4]), interestingNumber(bytes.byteLength, random));
      return copy;
    }
    default:
      return random.pick(BYTE_MUTATIONS)(bytes, random, bytes).slice();
  }
}

function near(view: DataView<ArrayBuffer>, offset: number, random: Random): bigint {
  if (!random.oneIn(2)) return interestingNumber(view.byteLength, random);
  return BigInt(view.getUint32(offset, true)) + BigInt(random.pick([-64, -16, -1, 1, 16, 32, 64]));
}
