import { type Bytes, concatBytes } from "../base/bytes.ts";
import { isTareError, LimitError, SourceError } from "../base/errors.ts";
import { untilAborted, untilGrace } from "./abort.ts";
import { doneError, type Sink } from "./sink.ts";

/**
 * The bytes of a stream, held in memory: a stream has no length and cannot be read twice. Beyond `maxBytes` it is
 * cancelled and refused with `limit/memory`.
 */
export async function collectStream(
  stream: ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>,
  { maxBytes, signal }: { readonly maxBytes: number; readonly signal?: AbortSignal | undefined },
): Promise<Bytes> {
  let reader: PieceReader | undefined;
  const pieces: Bytes[] = [];
  try {
    reader = readerOf(stream);
    for (let held = 0; ; ) {
      const { done, value } = await untilAborted(Promise.resolve(reader.read()), signal);
      signal?.throwIfAborted();
      if (done === true) return concatBytes(pieces);
      if (!(value instanceof Uint8Array)) throw noBytes(value);
      held += value.byteLength;
      if (held > maxBytes) throw tooLong(maxBytes);
      pieces.push(new Uint8Array(value));
    }
  } catch (error) {
    // Nothing more is wanted. It is not waited for: what was asked for may never come.
    Promise.resolve(reader?.cancel(error)).catch(() => undefined);
    signal?.throwIfAborted();
    throw streamError("Cannot read the stream", error);
  } finally {
    reader?.releaseLock();
  }
}

/** Not every browser can iterate a ReadableStream, and iterating tells it no reason. */
function readerOf(stream: ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>): PieceReader {
  if (stream instanceof ReadableStream) return stream.getReader();
  const iterator = stream[Symbol.asyncIterator]();
  return { read: () => iterator.next(), cancel: () => iterator.return?.(), releaseLock: () => undefined };
}

interface PieceReader {
  read(): Promise<{ readonly done?: boolean | undefined; readonly value?: unknown }>;
  cancel(reason: unknown): unknown;
  releaseLock(): void;
}

function noBytes(value: unknown): SourceError {
  const found = value === null ? "null" : typeof value;
  const message = `Cannot read the stream: each piece must be a Uint8Array, found ${found}`;
  return new SourceError("source/stream", message, { source: "stream" });
}

function tooLong(maxBytes: number): LimitError {
  return new LimitError(
    "limit/memory",
    `Cannot hold the stream in memory: it has more than ${maxBytes} bytes`,
    { source: "stream" },
    { hint: "Pass a Blob, a file or an address, which are read by ranges, or raise the option memory" },
  );
}

/** What a stream failed with, as an error of ours. */
export function streamError(what: string, cause: unknown): Error {
  if (isTareError(cause)) return cause;
  const why = cause instanceof Error ? `: ${cause.message}` : "";
  return new SourceError("source/stream", `${what}${why}`, { source: "stream" }, { cause });
}

/**
 * A stream as a Sink: bytes go out in order and cannot be taken back. Committing closes the stream, aborting aborts it.
 * With "release" an abort only lets go of it: its owner knows why, and says so.
 */
export function streamSink(
  stream: WritableStream<Uint8Array>,
  label = "stream",
  aborting: "abort" | "release" = "abort",
): Sink {
  const writer = writerOf(stream, label);
  let position = 0;
  let state: "open" | "done" = "open";
  return {
    label,
    get position() {
      return position;
    },
    async append(bytes) {
      if (state === "done") throw doneError(label);
      position += bytes.byteLength;
      // The stream may keep what it is given, and the caller may use its buffer again.
      const copy = bytes.slice();
      try {
        await writer.ready;
        await writer.write(copy);
      } catch (error) {
        throw streamError("Cannot write to the stream", error);
      }
    },
    async commit() {
      if (state === "done") throw doneError(label);
      state = "done";
      await writer.close().catch((error: unknown) => {
        throw streamError("Cannot finish the stream", error);
      });
    },
    async abort() {
      if (state === "done") return;
      state = "done";
      if (aborting === "abort") await untilGrace(() => writer.abort()); // it has failed already
      writer.releaseLock();
    },
  };
}

function writerOf(stream: WritableStream<Uint8Array>, label: string): WritableStreamDefaultWriter<Uint8Array> {
  if (!stream.locked) return stream.getWriter();
  const hint = "Release its writer first, or pass another stream";
  throw new SourceError("source/stream", "Cannot write to the stream: it is locked", { source: label }, { hint });
}
