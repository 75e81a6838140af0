import { SourceError } from "../base/errors.ts";
import { untilGrace } from "./abort.ts";
import { doneError, type Sink } from "./sink.ts";
import { streamError } from "./stream.ts";

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
