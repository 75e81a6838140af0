import { type Bytes, readMemory } from "../base/bytes.ts";
import { SourceError } from "../base/errors.ts";
import type { Output, Sink } from "../bytes/sink.ts";
import { runOf } from "../bytes/slice.ts";
import type { Source } from "../bytes/source.ts";
import type { Engine } from "../primitives/engine.ts";
import type { WriteContext } from "./format.ts";
import type { Tensor } from "./tensor.ts";

/** What a planned file consists of, in order. */
export type Piece =
  | { readonly kind: "bytes"; readonly bytes: Bytes }
  | { readonly kind: "zeros"; readonly byteLength: number }
  | { readonly kind: "tensor"; readonly tensor: Tensor };

export interface PlannedFile {
  readonly name: string;
  readonly byteLength: number;
  readonly pieces: readonly Piece[];
}

/** Reads in flight at once, each with its own buffer. Disk and CPU overlap, and memory stays at a few buffers. */
const BUFFERS = 4;
/** One read: large enough that a system call costs nothing, small enough to stay in cache on the way out. */
export const BUFFER_BYTES = 4 << 20;

const ZEROS: Bytes = new Uint8Array(64 << 10);

/** Appends the pieces in order. Tensors of any size stream through a few buffers. */
export async function writePieces(pieces: readonly Piece[], sink: Sink, context: WriteContext): Promise<void> {
  const bufferBytes = longestRead(pieces);
  const pool = new BufferPool(BUFFERS, bufferBytes);
  // The emission of each step waits for the one before it, so bytes are appended in order although reads finish in any
  // order.
  let emitted: Promise<void> = Promise.resolve();
  let failure: { readonly error: unknown } | undefined;
  const fail = (error: unknown): void => {
    failure ??= { error };
  };
  for (const step of planSteps(pieces, bufferBytes)) {
    const buffer = step.read === undefined ? undefined : await pool.take();
    if (failure !== undefined || pool.failed || context.signal?.aborted === true) break;
    const reading = readStep(step, buffer, context);
    const before = emitted;
    emitted = emitStep({ step, buffer, reading, before, sink, pool, context }).catch(fail);
  }
  await emitted;
  await pool.settled();
  if (failure !== undefined) throw failure.error;
  context.signal?.throwIfAborted();
}

/** Some files have 100 000 short runs that are written one by one. Full-length buffers for each would cost seconds. */
function longestRead(pieces: readonly Piece[]): number {
  let most = 0;
  for (const piece of pieces) {
    if (piece.kind === "tensor") most += piece.tensor.byteLength + MAX_GAP;
    if (most >= BUFFER_BYTES) return BUFFER_BYTES;
  }
  return most;
}

interface EmissionState {
  readonly step: Step;
  readonly buffer: Bytes | undefined;
  readonly reading: Promise<Bytes | undefined>;
  readonly before: Promise<void>;
  readonly sink: Sink;
  readonly pool: BufferPool;
  readonly context: WriteContext;
}

async function readStep(step: Step, buffer: Bytes | undefined, context: WriteContext): Promise<Bytes | undefined> {
  if (step.read === undefined || buffer === undefined) return undefined;
  const { source, offset, byteLength } = step.read;
  return source.read(offset, byteLength, { into: buffer.subarray(0, byteLength), signal: context.signal });
}

/** Resolves once the appends are issued in order; the buffer goes back when they have all landed. */
async function emitStep(state: EmissionState): Promise<void> {
  const { step, buffer, reading, before, sink, pool, context } = state;
  let appends: Promise<unknown> = Promise.resolve();
  try {
    const [bytes] = await Promise.all([reading, before]);
    appends = Promise.all(step.emissions.map((emission) => append(emission, bytes, sink)));
    void appends.then(
      () => context.onProgress?.(step.byteLength),
      () => undefined, // reported through pool.settled below
    );
  } finally {
    pool.giveBack(buffer, appends);
  }
}

async function append(emission: Emission, read: Bytes | undefined, sink: Sink): Promise<void> {
  if (emission.kind === "bytes") return sink.append(emission.bytes);
  if (emission.kind === "read") return sink.append((read as Bytes).subarray(emission.start, emission.end));
  const appends: Promise<void>[] = [];
  for (let left = emission.byteLength; left > 0; left -= ZEROS.byteLength) {
    appends.push(sink.append(left >= ZEROS.byteLength ? ZEROS : ZEROS.subarray(0, left)));
  }
  await Promise.all(appends);
}

/** Writes every file, has them checked, then makes them visible in order. On any failure none remains. */
export async function writeFiles(files: readonly PlannedFile[], output: Output, context: WriteContext): Promise<void> {
  const sinks = new Map<string, Sink>();
  try {
    for (const file of files) {
      const sink = await output.create(file.name);
      sinks.set(file.name, sink);
      await writePieces(file.pieces, sink, context);
      if (sink.position !== file.byteLength) {
        throw new Error(`planned ${file.byteLength} bytes for ${file.name}, wrote ${sink.position}`);
      }
    }
    await checkWritten(sinks, output, context);
    for (const sink of sinks.values()) await sink.commit();
  } catch (error) {
    await Promise.allSettled([...sinks.values()].map((sink) => sink.abort()));
    throw error;
  }
}

/** Hands the unpublished files to the caller's check, if the destination can be read back. */
export async function checkWritten(
  sinks: ReadonlyMap<string, Sink>,
  output: Pick<Output, "name" | "label">,
  context: WriteContext,
): Promise<void> {
  if (context.check === undefined) return;
  const opened: Source[] = [];
  const resolve = async (name: string): Promise<Source> => {
    const source = await sinks.get(name)?.reopen?.();
    if (source === undefined) {
      throw new SourceError("source/not-found", `Cannot read back "${name}"`, { source: output.label });
    }
    opened.push(source);
    return source;
  };
  if ([...sinks.values()].some((sink) => sink.reopen === undefined)) return;
  try {
    await context.check({ name: output.name, resolve });
  } finally {
    await Promise.allSettled(opened.map((source) => source.close()));
  }
}

/**
 * How a list of pieces becomes reads and appends. Large tensors are cut into reads of one buffer. Runs of small
 * neighbours share a read, so 100 000 tensors of 70 bytes cost a few reads. Pure; no I/O.
 */
interface Step {
  /** At most one buffer's worth. */
  readonly read?: { readonly source: Source; readonly offset: number; readonly byteLength: number };
  readonly emissions: readonly Emission[];
  /** Bytes appended. */
  readonly byteLength: number;
}

type Emission =
  | { readonly kind: "bytes"; readonly bytes: Bytes }
  | { readonly kind: "zeros"; readonly byteLength: number }
  | { readonly kind: "read"; readonly start: number; readonly end: number };

/** Most bytes between two tensors that are read and dropped to save a round trip. */
const MAX_GAP = 64 << 10;

/** A step in the making. */
interface Draft {
  source: Source | undefined;
  start: number;
  end: number;
  emissions: Emission[];
  byteLength: number;
}

const emptyDraft = (): Draft => ({ source: undefined, start: 0, end: 0, emissions: [], byteLength: 0 });

export function* planSteps(pieces: Iterable<Piece>, bufferBytes: number): Generator<Step> {
  let draft = emptyDraft();
  for (const piece of pieces) {
    if (piece.kind === "bytes" || piece.kind === "zeros") {
      draft.emissions.push(piece);
      draft.byteLength += piece.kind === "bytes" ? piece.bytes.byteLength : piece.byteLength;
      continue;
    }
    const source = piece.tensor.source();
    const run = runOf(source);
    const whole = run?.whole ?? source;
    const start = run?.start ?? 0;
    if (joins(draft, whole, start, source.byteLength, bufferBytes)) {
      addRead(draft, whole, start, source.byteLength);
      continue;
    }
    yield* finish(draft);
    draft = emptyDraft();
    let done = 0;
    for (; source.byteLength - done > bufferBytes; done += bufferBytes) {
      const large = emptyDraft();
      addRead(large, whole, start + done, bufferBytes);
      yield* finish(large);
    }
    addRead(draft, whole, start + done, source.byteLength - done);
  }
  yield* finish(draft);
}

function joins(draft: Draft, source: Source, start: number, byteLength: number, bufferBytes: number): boolean {
  if (byteLength === 0) return true;
  if (draft.source === undefined) return byteLength <= bufferBytes;
  if (draft.source !== source || start < draft.start) return false;
  return start - draft.end <= MAX_GAP && Math.max(draft.end, start + byteLength) - draft.start <= bufferBytes;
}

function addRead(draft: Draft, source: Source, start: number, byteLength: number): void {
  if (byteLength === 0) return;
  if (draft.source === undefined) {
    draft.source = source;
    draft.start = start;
    draft.end = start;
  }
  draft.end = Math.max(draft.end, start + byteLength);
  draft.emissions.push({ kind: "read", start: start - draft.start, end: start - draft.start + byteLength });
  draft.byteLength += byteLength;
}

function* finish(draft: Draft): Generator<Step> {
  if (draft.emissions.length === 0) return;
  const { source, start, end, emissions, byteLength } = draft;
  if (source === undefined) yield { emissions, byteLength };
  else yield { read: { source, offset: start, byteLength: end - start }, emissions, byteLength };
}

/** A fixed number of reusable buffers. Taking one waits until an earlier user has given it back. */
class BufferPool {
  readonly #free: Bytes[] = [];
  readonly #waiting: ((buffer: Bytes) => void)[] = [];
  readonly #bufferBytes: number;
  readonly #pending = new Set<Promise<unknown>>();
  #left: number;
  #failure: { readonly error: unknown } | undefined;

  constructor(buffers: number, bufferBytes: number) {
    this.#left = buffers;
    this.#bufferBytes = bufferBytes;
  }

  take(): Promise<Bytes> {
    const free = this.#free.pop();
    if (free !== undefined) return Promise.resolve(free);
    if (this.#left > 0) {
      this.#left--;
      return Promise.resolve(readMemory(this.#bufferBytes));
    }
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** The buffer becomes free when `use` settles; a failure of `use` is thrown by `settled`. */
  giveBack(buffer: Bytes | undefined, use: Promise<unknown>): void {
    const tracked = use.then(
      () => undefined,
      (error: unknown) => {
        this.#failure ??= { error };
      },
    );
    const done = tracked.then(() => {
      this.#pending.delete(done);
      if (buffer !== undefined) this.#release(buffer);
    });
    this.#pending.add(done);
  }

  /** Waits for every buffer in use, then throws the first failure, if any. */
  async settled(): Promise<void> {
    while (this.#pending.size > 0) await Promise.all(this.#pending);
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  get failed(): boolean {
    return this.#failure !== undefined;
  }

  #release(buffer: Bytes): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free.push(buffer);
    else next(buffer);
  }
}

/** A Sink that computes the CRC-32 of the bytes that pass through it to another Sink. */
export class CrcSink implements Sink {
  readonly label: string;
  readonly #sink: Sink;
  readonly #engine: Engine;
  #crc: Promise<number> = Promise.resolve(0);
  #byteLength = 0;

  constructor(sink: Sink, engine: Engine) {
    this.label = sink.label;
    this.#sink = sink;
    this.#engine = engine;
  }

  get position(): number {
    return this.#sink.position;
  }

  /** Bytes that have passed. */
  get byteLength(): number {
    return this.#byteLength;
  }

  async append(bytes: Bytes): Promise<void> {
    this.#byteLength += bytes.byteLength;
    const written = this.#sink.append(bytes);
    this.#crc = this.#crc.then((crc) => this.#engine.crc32(bytes, crc));
    await Promise.all([written, this.#crc]);
  }

  /** The CRC of everything appended so far. */
  crc(): Promise<number> {
    return this.#crc;
  }

  commit(): Promise<void> {
    return this.#sink.commit();
  }

  abort(): Promise<void> {
    return this.#sink.abort();
  }
}
