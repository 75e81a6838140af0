import { type Bytes, EMPTY_BYTES, readMemory } from "../base/bytes.ts";
import { SourceError, UsageError } from "../base/errors.ts";
import type { ExtentsOptions, HashExtent, Hasher, RangeOptions, ReadableRange } from "./engine.ts";

/**
 * Two of these fit a core's second-level cache (512 KiB on small server cores), so a piece is hashed before it is
 * evicted, even on another core. Measured on Node 20 with whole files: half as fast with 1 MiB, and with 64 KiB.
 */
const PIECE_BYTES = 1 << 18;

/** Buffers kept for the next range: two each for a few ranges at a time. */
const KEPT_BUFFERS = 8;

/**
 * Hashes a run of a source in bounded memory. Reads local sources into two buffers in turn: the next piece while the
 * last one is hashed. Reuses buffers between calls, because fresh pages cost as much as hashing. Streams sources that
 * no worker could open, such as a URL.
 */
export class RangeHasher {
  readonly #free: Bytes[] = [];

  async run(hasher: Hasher, range: ReadableRange, options: RangeOptions): Promise<Bytes> {
    const { offset, byteLength, signal } = options;
    checkExtent(range.label, offset, byteLength);
    signal?.throwIfAborted();
    if (isBlocking(range)) {
      const [digest = EMPTY_BYTES] = await hashExtents(() => hasher, range, [{ offset, byteLength }], options);
      return digest;
    }
    if (range.stream !== undefined && isFarAway(range)) return hashStream(hasher, range, options);
    const buffers = [0, PIECE_BYTES].map((start) => this.#take(Math.min(byteLength - start, PIECE_BYTES)));
    let waiting: Promise<Bytes> | undefined;
    const readPiece = (position: number): Promise<Bytes> => {
      const length = Math.min(PIECE_BYTES, byteLength - position);
      const into = buffers[(position / PIECE_BYTES) % 2]?.subarray(0, length) ?? EMPTY_BYTES;
      return range.read(offset + position, length, { into, signal });
    };
    try {
      if (byteLength > 0) waiting = readPiece(0);
      for (let position = 0; waiting !== undefined; position += PIECE_BYTES) {
        const piece: Bytes = await waiting;
        const next = position + PIECE_BYTES;
        waiting = next < byteLength ? readPiece(next) : undefined;
        signal?.throwIfAborted();
        hasher.update(piece);
        options.onProgress?.(piece.byteLength);
      }
    } catch (error) {
      // Do not reuse these buffers: the system may still write to one although the aborted read has rejected.
      await waiting?.catch(() => undefined);
      throw error;
    }
    this.#give(buffers);
    return hasher.digest();
  }

  #take(byteLength: number): Bytes {
    if (byteLength < PIECE_BYTES) return new Uint8Array(Math.max(byteLength, 0));
    return this.#free.pop() ?? readMemory(PIECE_BYTES);
  }

  #give(buffers: readonly Bytes[]): void {
    for (const buffer of buffers) {
      if (buffer.byteLength === PIECE_BYTES && this.#free.length < KEPT_BUFFERS) this.#free.push(buffer);
    }
  }
}

/**
 * True where one stream is faster than one read after the other: no worker can open the source, as it is with a URL, or it
 * is a blob. A browser has blobs in another process: a read costs a message there and back, a stream keeps a pipe filled.
 */
export function isFarAway({ descriptor }: Pick<ReadableRange, "descriptor">): boolean {
  return descriptor === undefined || isOfBlob(descriptor);
}

/** True for the descriptor of a blob, and of a slice of one. */
export function isOfBlob(descriptor: unknown): boolean {
  const { kind, of } = (descriptor ?? {}) as { readonly kind?: unknown; readonly of?: unknown };
  return kind === "blob" || (kind === "slice" && isOfBlob(of));
}

async function hashStream(hasher: Hasher, range: ReadableRange, options: RangeOptions): Promise<Bytes> {
  const { offset, byteLength, signal, onProgress } = options;
  let done = 0;
  for await (const piece of range.stream?.(offset, { byteLength, signal }) ?? []) {
    signal?.throwIfAborted();
    hasher.update(piece);
    done += piece.byteLength;
    onProgress?.(piece.byteLength);
  }
  if (done === byteLength) return hasher.digest();
  // A digest of fewer bytes would look like damage to the file.
  const message = `Cannot hash ${byteLength} bytes at ${offset}: the stream ended after ${done}`;
  throw new SourceError("source/truncated", message, { source: range.label, offset: offset + done });
}

function checkExtent(label: string, offset: number, byteLength: number): void {
  if (Number.isSafeInteger(offset) && Number.isSafeInteger(byteLength) && offset >= 0 && byteLength >= 0) return;
  const message = `Cannot hash ${byteLength} bytes at ${offset}: both must be whole numbers from 0 up`;
  throw new UsageError("usage/engine.range", message, { source: label });
}

/**
 * The piece of a thread that reads and hashes in turn. No other thread needs it, so it may exceed the cache a little.
 */
const TURN_PIECE_BYTES = 1 << 19;

/** After this many bytes read without a promise, one piece is awaited, so that a job can be cancelled. */
const TURN_BYTES = 16 << 20;

/** Each run counts as at least this many, so that a thousand short runs also end a turn. */
const LEAST_TURN_BYTES = 1 << 14;

/**
 * Hashes many extents of one source, overlapping or not, and reads each byte once. So a whole shard, its pages and its
 * tensors cost one pass. Does not read bytes that no extent covers.
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
  if (isBlocking(range)) await feedInTurn(runs, range, options, sweep);
  else if (range.stream === undefined || !isFarAway(range))
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

/** Reads one piece while it hashes the one before. */
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
    await waiting?.catch(() => undefined); // no read may use the buffers after this
  }
}

/** For remote sources: one stream for each run, instead of a request for each piece. */
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
      // In pieces that stay in the cache while every extent hashes them.
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

/**
 * A source of a thread that has nothing else to do: `readNow` fills `into` while the thread waits. Every so often `read` is
 * used instead, which lets messages through.
 */
interface BlockingRange extends ReadableRange {
  readNow(offset: number, into: Bytes): void;
}

function isBlocking(range: ReadableRange): range is BlockingRange {
  return typeof (range as Partial<BlockingRange>).readNow === "function";
}

/** On a thread that may block: no promise for most pieces, and one buffer that stays in the cache. */
async function feedInTurn(
  runs: Generator<HashExtent>,
  range: BlockingRange,
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

function feedNow(range: BlockingRange, { offset, byteLength }: HashExtent, buffer: Bytes, sweep: Sweep): void {
  const end = offset + byteLength;
  for (let at = offset; at < end; at += TURN_PIECE_BYTES) {
    const piece = end - at < TURN_PIECE_BYTES ? buffer.subarray(0, end - at) : buffer;
    range.readNow(at, piece);
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

/** An extent being hashed. */
interface Active {
  readonly index: number;
  readonly end: number;
  readonly hasher: Hasher;
}

/**
 * Goes through a source from beginning to end, and feeds every extent that covers the bytes. The usual piece, in which
 * no extent begins or ends, takes a path so short that V8 compiles it at once. As one long function, compiling took as
 * long as hashing 200 MB.
 */
class Sweep {
  readonly #create: (index: number) => Hasher;
  readonly #extents: readonly HashExtent[];
  readonly #order: readonly number[];
  readonly #digests: Bytes[];
  #active: Active[] = [];
  #hashers: Hasher[] = [];
  #next = 0;
  /** Up to here the same extents are active. */
  #change = 0;

  constructor(create: (index: number) => Hasher, extents: readonly HashExtent[], order: readonly number[]) {
    this.#create = create;
    this.#extents = extents;
    this.#order = order;
    this.#digests = new Array<Bytes>(extents.length);
  }

  feed(start: number, piece: Bytes): void {
    if (start + piece.byteLength <= this.#change) for (const hasher of this.#hashers) hasher.update(piece);
    else this.#feedParts(start, piece);
  }

  finish(): Bytes[] {
    this.#changeAt(Number.POSITIVE_INFINITY);
    return this.#digests;
  }

  /** Cuts the piece where extents begin and end. */
  #feedParts(start: number, piece: Bytes): void {
    const end = start + piece.byteLength;
    for (let position = start; position < end; ) {
      if (position >= this.#change) this.#changeAt(position);
      const until = Math.min(end, this.#change);
      const part = piece.subarray(position - start, until - start);
      for (const hasher of this.#hashers) hasher.update(part);
      position = until;
    }
  }

  #changeAt(position: number): void {
    this.#active = this.#active.filter(({ index, end, hasher }) => {
      if (end > position) return true;
      this.#digests[index] = hasher.digest();
      return false;
    });
    this.#openUpTo(position);
    this.#hashers = this.#active.map(({ hasher }) => hasher);
    const startOfNext = this.#extents[this.#order[this.#next] as number]?.offset ?? Number.POSITIVE_INFINITY;
    this.#change = this.#active.reduce((nearest, { end }) => Math.min(nearest, end), startOfNext);
  }

  #openUpTo(position: number): void {
    for (; this.#next < this.#order.length; this.#next++) {
      const index = this.#order[this.#next] as number;
      const { offset, byteLength } = this.#extents[index] as HashExtent;
      if (offset > position) return;
      if (byteLength === 0) this.#digests[index] = this.#create(index).digest();
      else this.#active.push({ index, end: offset + byteLength, hasher: this.#create(index) });
    }
  }
}
