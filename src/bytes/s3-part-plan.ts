import { LimitError } from "../base/errors.ts";

/** S3's own limits: parts of one upload, bytes of a part but the last, bytes of an object (5 TiB). */
export const MAX_PARTS = 10_000;
export const LEAST_PART_BYTES = 5 << 20;
const MAX_OBJECT_BYTES = 5 * 2 ** 40;

/** 16 MiB: large enough that a request costs little beside its bytes, small enough to hold several. */
export const PART_BYTES = 16 << 20;
/** After so many parts of one length the next ones are twice as long: ten doublings reach 5 TiB within 10,000. */
const PARTS_OF_A_LENGTH = 1000;

/** A part of an upload whose length is not known yet. */
export interface PartPlace {
  /** From 1. */
  readonly number: number;
  readonly offset: number;
  /** Full length; the last part of an object is shorter. */
  readonly byteLength: number;
}

/** The part that holds the byte at `offset`, in an upload that may grow to any length that S3 takes. */
export function partAt(offset: number, partBytes: number, label: string): PartPlace {
  if (offset >= MAX_OBJECT_BYTES) throw objectError(label);
  let start = 0;
  let byteLength = partBytes;
  let number = 1;
  for (;;) {
    const end = start + byteLength * PARTS_OF_A_LENGTH;
    if (offset < end) {
      const index = Math.floor((offset - start) / byteLength);
      if (number + index > MAX_PARTS) throw objectError(label);
      return { number: number + index, offset: start + index * byteLength, byteLength };
    }
    start = end;
    byteLength *= 2;
    number += PARTS_OF_A_LENGTH;
  }
}

/** One length for all parts of an object whose length is known: as wanted, or whole MiB where that gives too many. */
export function planPartBytes(byteLength: number, wanted: number, label: string): number {
  if (byteLength > MAX_OBJECT_BYTES) throw objectError(label);
  if (byteLength <= wanted * MAX_PARTS) return wanted;
  const mebibyte = 1 << 20;
  return Math.ceil(byteLength / MAX_PARTS / mebibyte) * mebibyte;
}

function objectError(label: string): LimitError {
  const message = `Cannot write "${label}": an object must have at most 5 TiB in ${MAX_PARTS} parts`;
  return new LimitError("limit/s3.object", message, { source: label }, { hint: "Use --max-shard-size" });
}
