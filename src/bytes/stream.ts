import { type Bytes, concatBytes } from "../base/bytes.ts";
import { isTareError, LimitError, SourceError } from "../base/errors.ts";
import { untilAborted } from "./abort.ts";

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
