import { FormatError, type Location, SourceError } from "../base/errors.ts";

/** A run of bytes in one Source. */
export interface Extent {
  readonly offset: number;
  readonly byteLength: number;
}

/** The offset after the last byte. */
export function endOf({ offset, byteLength }: Extent): number {
  return offset + byteLength;
}

/** Refuses a read outside 0 … size, before any I/O. */
export function checkRange(label: string, size: number, offset: number, byteLength: number): void {
  const fine =
    Number.isSafeInteger(offset) &&
    Number.isSafeInteger(byteLength) &&
    offset >= 0 &&
    byteLength >= 0 &&
    offset <= size - byteLength;
  if (fine) return;
  throw new SourceError("source/out-of-range", `Cannot read ${byteLength} bytes at ${offset}: the source has ${size}`, {
    source: label,
    ...(Number.isSafeInteger(offset) && offset >= 0 ? { offset } : {}),
  });
}

/** The first pair that shares a byte, by offset, or undefined. Empty extents overlap nothing. */
export function findOverlap<E extends Extent>(extents: readonly E[]): readonly [E, E] | undefined {
  const sorted = extents.filter((extent) => extent.byteLength > 0).sort((a, b) => a.offset - b.offset);
  for (let i = 1; i < sorted.length; i++) {
    const before = sorted[i - 1] as E;
    const after = sorted[i] as E;
    if (before.offset + before.byteLength > after.offset) return [before, after];
  }
  return undefined;
}

/** The runs of 0 … size that no extent covers, in order. */
export function findGaps(extents: readonly Extent[], size: number): Extent[] {
  const gaps: Extent[] = [];
  let position = 0;
  for (const extent of [...extents].sort((a, b) => a.offset - b.offset)) {
    if (extent.offset > position) gaps.push({ offset: position, byteLength: extent.offset - position });
    position = Math.max(position, extent.offset + extent.byteLength);
  }
  if (position < size) gaps.push({ offset: position, byteLength: size - position });
  return gaps;
}

/** One read that serves several extents. */
export interface Batch<E extends Extent> extends Extent {
  readonly members: readonly E[];
}

export interface BatchOptions {
  /** Unwanted bytes worth reading to save a round trip. */
  readonly maxGap: number;
  /** Batches never grow beyond this; an extent that is larger on its own is its own batch. */
  readonly maxBytes: number;
}

/**
 * Groups extents, in the order given, into reads. An extent that begins before the current batch starts a new batch.
 */
export function planBatches<E extends Extent>(extents: readonly E[], options: BatchOptions): Batch<E>[] {
  const batches: Batch<E>[] = [];
  let members: E[] = [];
  let start = 0;
  let end = 0;
  const flush = (): void => {
    if (members.length > 0) batches.push({ offset: start, byteLength: end - start, members });
  };
  for (const extent of extents) {
    const extentEnd = extent.offset + extent.byteLength;
    const joins =
      members.length > 0 &&
      extent.offset >= start &&
      extent.offset - end <= options.maxGap &&
      Math.max(end, extentEnd) - start <= options.maxBytes;
    if (joins) {
      members.push(extent);
      end = Math.max(end, extentEnd);
    } else {
      flush();
      members = [extent];
      start = extent.offset;
      end = extentEnd;
    }
  }
  flush();
  return batches;
}

/** Throws if two extents share bytes; `name` says which ones in the message. */
export function rejectOverlaps<E extends Extent>(
  extents: readonly E[],
  name: (extent: E) => string,
  code: `format/${string}`,
  at: Location,
): void {
  const pair = findOverlap(extents);
  if (pair === undefined) return;
  const [a, b] = pair;
  const message = `Cannot accept overlapping data: ${name(a)} ends at ${a.offset + a.byteLength}, ${name(b)} begins at ${b.offset}`;
  throw new FormatError(code, message, { ...at, offset: b.offset });
}
