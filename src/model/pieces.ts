import type { Bytes } from "../base/bytes.ts";
import { SourceError } from "../base/errors.ts";
import type { Output, Sink } from "../bytes/sink.ts";
import type { Source } from "../bytes/source.ts";
import { BufferPool } from "./buffer-pool.ts";
import { type Emission, MAX_GAP, planSteps, type Step } from "./copy-steps.ts";
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

/** Reads under way at once, each with a buffer of its own: disk and CPU overlap, memory stays at a few of them. */
const BUFFERS = 4;
/** One read: large enough that a system call costs nothing, small enough to stay in cache on the way out. */
export const BUFFER_BYTES = 4 << 20;

const ZEROS: Bytes = new Uint8Array(64 << 10);

/** Appends the pieces in order, streaming tensors through a few buffers, whatever the sizes. */
export async function writePieces(pieces: readonly Piece[], sink: Sink, context: WriteContext): Promise<void> {
  const bufferBytes = longestRead(pieces);
  const pool = new BufferPool(BUFFERS, bufferBytes);
  // Each step's emission waits for the one before it, so bytes land in order although reads finish in any.
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

/** Some files have 100 000 short runs that are written one by one: each with buffers of full length would cost seconds. */
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

/** Writes every file, lets them be checked, then makes them visible in order; on any failure none is left behind. */
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

/** Hands the unpublished files to the caller's check, where the destination can be read back. */
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
