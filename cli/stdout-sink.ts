import type { Bytes } from "../src/base/bytes.ts";
import type { Sink } from "../src/bytes/sink.ts";
import type { Terminal } from "./terminal.ts";

/** Standard output as a Sink: bytes are visible as they come, as in any pipe, and cannot be taken back. */
export function stdoutSink(terminal: Terminal): Sink {
  let position = 0;
  let written: Promise<void> = Promise.resolve();
  return {
    label: "standard output",
    get position() {
      return position;
    },
    append(bytes: Bytes): Promise<void> {
      position += bytes.byteLength;
      written = written.then(() => terminal.writeOut(bytes));
      return written;
    },
    commit: () => written,
    abort: () => Promise.resolve(),
  };
}
