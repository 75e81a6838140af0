import type { Bytes } from "../src/base/bytes.ts";
import { systemError, UsageError } from "../src/base/errors.ts";
import type { Output, Sink } from "../src/bytes/sink.ts";
import type { Context } from "./context.ts";
import { BrokenPipe, type Terminal } from "./terminal.ts";

/** Weights belong neither on a screen nor into a JSON document. */
export function checkStandardOutput(context: Context): void {
  if (context.flags.json === true) {
    throw new UsageError("usage/json-needs-output", "Cannot print JSON and bytes to the same place: --json needs -o", {
      source: "command line",
    });
  }
  if (!context.terminal.outIsTerminal) return;
  throw new UsageError(
    "usage/binary-to-terminal",
    "Cannot print bytes to a terminal",
    { source: "command line" },
    { hint: "Redirect them (> FILE), name a file with -o, or look at the values with: tare stats" },
  );
}

/**
 * Standard output as a Sink: bytes are visible as they come, as in any pipe, and cannot be taken back. A reader that goes
 * away has not got the file, whereas one of a listing has seen enough.
 */
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
      written = written.then(() => terminal.writeOut(bytes)).catch(undelivered);
      return written;
    },
    commit: () => written,
    abort: () => Promise.resolve(),
  };
}

function undelivered(error: unknown): never {
  if (!(error instanceof BrokenPipe)) throw error;
  const source = "standard output";
  throw systemError("EPIPE", `Cannot write to ${source}`, { source }, { cause: error });
}

/** Standard output for a writer of one file. */
export function stdoutOutput(terminal: Terminal, name: string): Output {
  return { label: "standard output", name, create: () => Promise.resolve(stdoutSink(terminal)) };
}
