import type { Bytes } from "../base/bytes.ts";
import { SourceError, UsageError } from "../base/errors.ts";
import { readMemory } from "../base/read-memory.ts";
import type { ExtentsOptions, HashExtent, Hasher, ReadableRange } from "./engine.ts";
import { Sweep } from "./sweep.ts";

/** Two of these fit a core's second-level cache; every extent that covers a piece is fed while it is there. */
const PIECE_BYTES = 1 << 18;

/** What a thread reads and hashes in turn, with nobody else to hand it to: it may as well spill a little. */
const TURN_PIECE_BYTES = 1 << 19;

/** After so many bytes that were read without a promise one piece is awaited, so that a job can be cancelled. */
const TURN_BYTES = 16 << 20;

/** What a run counts at least towards that: a thousand short ones are no shorter turn. */
const LEAST_TURN_BYTES = 1 << 14;

/**
 * Hashes many extents of one source, overlapping or not, reading each byte once: the whole of a shard, its pages and its
 * tensors cost one pass. Bytes that no extent covers are not read.
 */
export async function hashExtents(
  create: (index: number) => Hasher,
  range: ReadableRange,
  extents: readonly HashExtent[],
  options: ExtentsOptions = {},
): Promise<Bytes[]> {
  const order = sortedOrder(extents, range.label);
  const sweep = new Sweep(create, extents, order);
  const runs = mergedRuns(extents, order);
  if (range.readNow !== undefined) await feedInTurn(runs, range, options, sweep);
  else if (range.stream === undefined || (range.descriptor !== undefined && range.prefers !== "stream"))
    await feedWhileReading(pieceRuns(runs), range, options, sweep);
  else await feedFromStreams(runs, range, options, sweep);
  return sweep.finish();
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

/** One piece is read while the one before is hashed. */
async function feedWhileReading(
  runs: Generator<HashExtent>,
  range: ReadableRange,
  options: ExtentsOptions,
  sweep: Sweep,
): Promise<void> {
  const buffers: readonly [Bytes, Bytes] = [readMemory(PIECE_BYTES), readMemory(PIECE_BYTES)];
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
      sweep.feed(covered.start, covered.piece);
      options.onProgress?.(covered.piece.byteLength);
    }
  } finally {
    await waiting?.catch(() => undefined); // the buffers must be free before they go
  }
}

/** From far away: one stream for each run, instead of a request for each piece. */
async function feedFromStreams(
  runs: Generator<HashExtent>,
  range: ReadableRange,
  { signal, onProgress }: ExtentsOptions,
  sweep: Sweep,
): Promise<void> {
  for (const { offset, byteLength } of runs) {
    let done = 0;
    for await (const piece of range.stream?.(offset, { byteLength, signal }) ?? []) {
      signal?.throwIfAborted();
      // In pieces that stay in the cache while every extent takes them.
      for (let start = 0; start < piece.byteLength; start += PIECE_BYTES) {
        const part = piece.subarray(start, start + PIECE_BYTES);
        sweep.feed(offset + done, part);
        onProgress?.(part.byteLength);
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
  sweep: Sweep,
): Promise<void> {
  const buffer = readMemory(TURN_PIECE_BYTES);
  let turn = 0;
  for (const { offset, byteLength } of runs) {
    const end = offset + byteLength;
    for (let at = offset; at < end; ) {
      const until = Math.min(end, at + (turn > 0 ? turn : TURN_PIECE_BYTES));
      if (turn > 0) {
        feedNow(range, { offset: at, byteLength: until - at }, buffer, sweep);
        turn -= Math.max(until - at, LEAST_TURN_BYTES);
      } else {
        const { piece } = await readPiece(range, { offset: at, byteLength: until - at }, buffer, options);
        options.signal?.throwIfAborted();
        sweep.feed(at, piece);
        turn = TURN_BYTES;
      }
      options.onProgress?.(until - at);
      at = until;
    }
  }
}

function feedNow(range: ReadableRange, { offset, byteLength }: HashExtent, buffer: Bytes, sweep: Sweep): void {
  const end = offset + byteLength;
  for (let at = offset; at < end; at += TURN_PIECE_BYTES) {
    const piece = end - at < TURN_PIECE_BYTES ? buffer.subarray(0, end - at) : buffer;
    range.readNow?.(at, piece);
    sweep.feed(at, piece);
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

/** Runs, cut into pieces. */
function* pieceRuns(runs: Generator<HashExtent>): Generator<HashExtent> {
  for (const run of runs) {
    const end = run.offset + run.byteLength;
    for (let offset = run.offset; offset < end; offset += PIECE_BYTES) {
      yield { offset, byteLength: Math.min(PIECE_BYTES, end - offset) };
    }
  }
}
