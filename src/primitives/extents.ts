import type { Bytes } from "../base/bytes.ts";
import { SourceError, UsageError } from "../base/errors.ts";
import type { ExtentsOptions, HashExtent, Hasher, ReadableRange } from "./engine.ts";

/** Two of these fit a core's second-level cache; every extent that covers a piece is fed while it is there. */
const PIECE_BYTES = 1 << 18;

/** Of so many pieces one is awaited where the others are not, so that a job can be cancelled: every 16 MiB. */
const AWAITED = 64;

/** An extent being hashed. */
interface Active {
  readonly index: number;
  readonly end: number;
  readonly hasher: Hasher;
}

/**
 * Hashes many extents of one source, overlapping or not, reading each byte once: the whole of a shard, its pages and its
 * tensors cost one pass. Bytes that no extent covers are not read.
 */
export async function hashExtents(
  create: () => Hasher,
  range: ReadableRange,
  extents: readonly HashExtent[],
  options: ExtentsOptions = {},
): Promise<Bytes[]> {
  const digests = new Array<Bytes>(extents.length);
  const order = sortedOrder(extents, range.label);
  let active: Active[] = [];
  let next = 0;
  const openUpTo = (position: number): void => {
    for (; next < order.length; next++) {
      const index = order[next] as number;
      const { offset, byteLength } = extents[index] as HashExtent;
      if (offset > position) return;
      if (byteLength === 0) digests[index] = create().digest();
      else active.push({ index, end: offset + byteLength, hasher: create() });
    }
  };
  const startOfNext = (): number => extents[order[next] as number]?.offset ?? Number.POSITIVE_INFINITY;
  const feed = ({ start, piece }: Covered): void => {
    // Within a piece, extents begin and end: cut it where the set of active ones changes.
    let position = start;
    const pieceEnd = start + piece.byteLength;
    while (position < pieceEnd) {
      openUpTo(position);
      const nearestEnd = active.reduce((nearest, { end }) => Math.min(nearest, end), pieceEnd);
      const until = Math.min(pieceEnd, nearestEnd, startOfNext());
      const part = piece.subarray(position - start, until - start);
      for (const { hasher } of active) hasher.update(part);
      position = until;
      active = active.filter(({ index, end, hasher }) => {
        if (end > position) return true;
        digests[index] = hasher.digest();
        return false;
      });
    }
    options.onProgress?.(piece.byteLength);
  };
  if (range.readNow !== undefined) await feedInTurn(pieceRuns(extents, order), range, options, feed);
  else if (range.stream === undefined || (range.descriptor !== undefined && range.prefers !== "stream"))
    await feedWhileReading(pieceRuns(extents, order), range, options, feed);
  else await feedFromStreams(mergedRuns(extents, order), range, options, feed);
  openUpTo(Number.POSITIVE_INFINITY);
  return digests;
}

function sortedOrder(extents: readonly HashExtent[], label: string): number[] {
  for (const { offset, byteLength } of extents) {
    if (Number.isSafeInteger(offset) && Number.isSafeInteger(byteLength) && offset >= 0 && byteLength >= 0) continue;
    const message = `Cannot hash ${byteLength} bytes at ${offset}: both must be whole numbers from 0 up`;
    throw new UsageError("usage/engine.range", message, { source: label });
  }
  const order = extents.map((_, index) => index);
  return order.sort((a, b) => (extents[a] as HashExtent).offset - (extents[b] as HashExtent).offset);
}

interface Covered {
  readonly start: number;
  readonly piece: Bytes;
}

type Feed = (covered: Covered) => void;

/** One piece is read while the one before is hashed. */
async function feedWhileReading(
  runs: Generator<HashExtent>,
  range: ReadableRange,
  options: ExtentsOptions,
  feed: Feed,
): Promise<void> {
  const buffers: readonly [Bytes, Bytes] = [new Uint8Array(PIECE_BYTES), new Uint8Array(PIECE_BYTES)];
  let turn = 0;
  const read = (): Promise<Covered> | undefined => {
    const run = runs.next();
    if (run.done === true) return undefined;
    return readPiece(range, run.value, turn++ % 2 === 0 ? buffers[0] : buffers[1], options);
  };
  let waiting: Promise<Covered> | undefined = read();
  try {
    while (waiting !== undefined) {
      const covered: Covered = await waiting;
      options.signal?.throwIfAborted();
      waiting = read();
      feed(covered);
    }
  } finally {
    await waiting?.catch(() => undefined); // the buffers must be free before they go
  }
}

/** From far away: one stream for each run, instead of a request for each piece. */
async function feedFromStreams(
  runs: Generator<HashExtent>,
  range: ReadableRange,
  { signal }: ExtentsOptions,
  feed: Feed,
): Promise<void> {
  for (const { offset, byteLength } of runs) {
    let done = 0;
    for await (const piece of range.stream?.(offset, { byteLength, signal }) ?? []) {
      signal?.throwIfAborted();
      // In pieces that stay in the cache while every extent takes them.
      for (let start = 0; start < piece.byteLength; start += PIECE_BYTES) {
        const part = piece.subarray(start, start + PIECE_BYTES);
        feed({ start: offset + done, piece: part });
        done += part.byteLength;
      }
    }
    if (done !== byteLength) throw truncatedError(range.label, { offset, byteLength });
  }
}

/** On a thread that may block: no promise for most pieces, and one buffer that stays in the cache. */
async function feedInTurn(
  runs: Generator<HashExtent>,
  range: ReadableRange,
  options: ExtentsOptions,
  feed: Feed,
): Promise<void> {
  const buffer = new Uint8Array(PIECE_BYTES);
  let turn = 0;
  for (const run of runs) {
    if (turn++ % AWAITED === 0) {
      feed(await readPiece(range, run, buffer, options));
      options.signal?.throwIfAborted();
      continue;
    }
    const piece = buffer.subarray(0, run.byteLength);
    range.readNow?.(run.offset, piece);
    feed({ start: run.offset, piece });
  }
}

async function readPiece(
  range: ReadableRange,
  { offset, byteLength }: HashExtent,
  buffer: Bytes,
  { signal }: ExtentsOptions,
): Promise<Covered> {
  const piece = await range.read(offset, byteLength, { into: buffer.subarray(0, byteLength), signal });
  if (piece.byteLength === byteLength) return { start: offset, piece };
  throw truncatedError(range.label, { offset, byteLength });
}

function truncatedError(source: string, { offset, byteLength }: HashExtent): SourceError {
  return new SourceError("source/truncated", `Cannot hash ${byteLength} bytes at ${offset}`, { source });
}

/** Merges extents that touch or overlap. */
function* mergedRuns(extents: readonly HashExtent[], order: readonly number[]): Generator<HashExtent> {
  let start = 0;
  let end = 0;
  for (const index of order) {
    const { offset, byteLength } = extents[index] as HashExtent;
    if (byteLength === 0) continue;
    if (offset > end) {
      if (end > start) yield { offset: start, byteLength: end - start };
      start = offset;
      end = offset;
    }
    end = Math.max(end, offset + byteLength);
  }
  if (end > start) yield { offset: start, byteLength: end - start };
}

/** The same, cut into pieces. */
function* pieceRuns(extents: readonly HashExtent[], order: readonly number[]): Generator<HashExtent> {
  for (const run of mergedRuns(extents, order)) {
    const end = run.offset + run.byteLength;
    for (let offset = run.offset; offset < end; offset += PIECE_BYTES) {
      yield { offset, byteLength: Math.min(PIECE_BYTES, end - offset) };
    }
  }
}
