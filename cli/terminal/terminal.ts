import { writeSync } from "node:fs";
import { isatty } from "node:tty";
import type { Bytes } from "../../src/base/bytes.ts";
import { errnoOf, systemError } from "../../src/base/errors.ts";

const STDOUT = 1;
const STDERR = 2;
/** Used if a terminal does not say how wide it is. */
const DEFAULT_COLUMNS = 80;

/** The reader of our output went away (`tare ls … | head`): not an error, only the end. */
export class BrokenPipe extends Error {
  override readonly name = "BrokenPipe";
}

/** Standard output and standard error. */
export interface Terminal {
  readonly outIsTerminal: boolean;
  readonly errIsTerminal: boolean;
  /** Cells of a line; meaningful only if the stream is a terminal. */
  readonly columns: number;
  /** Resolves when the reader has taken the content. Throws BrokenPipe, or the system's error for standard output. */
  writeOut(content: string | Bytes): Promise<void>;
  /** Writes a message at once; ignores errors, because there is no other place to report them. */
  writeErr(text: string): void;
}

/** Checks file descriptors, not process.stdout, which costs start-up time and is rarely needed. */
export function processTerminal(env: Readonly<Record<string, string | undefined>>): Terminal {
  return {
    outIsTerminal: isatty(STDOUT),
    errIsTerminal: isatty(STDERR),
    get columns() {
      const stream = isatty(STDOUT) ? process.stdout : isatty(STDERR) ? process.stderr : undefined;
      return stream?.columns || Number(env["COLUMNS"]) || DEFAULT_COLUMNS;
    },
    writeOut: (content) => (typeof content === "string" ? writeText(content) : writeStream(content)),
    writeErr: (text) => {
      try {
        writeSync(STDERR, text);
      } catch {
        // A closed or full standard error takes no messages.
      }
    },
  };
}

/** Writes small output straight to the descriptor; if the pipe is full, the rest goes through a stream. */
async function writeText(text: string): Promise<void> {
  let rest = Buffer.from(text);
  while (rest.byteLength > 0) {
    try {
      rest = rest.subarray(writeSync(STDOUT, rest));
    } catch (error) {
      if (errnoOf(error) !== "EAGAIN") throw outputError(error);
      return writeStream(rest);
    }
  }
}

let isGuarded = false;

function writeStream(bytes: Uint8Array): Promise<void> {
  if (!isGuarded) {
    isGuarded = true;
    // Every write gets its failure through its callback; without a listener Node would also throw it.
    process.stdout.on("error", () => undefined);
  }
  return new Promise((resolve, reject) => {
    process.stdout.write(bytes, (error) => {
      if (error) reject(outputError(error));
      else resolve();
    });
  });
}

function outputError(error: unknown): unknown {
  const errno = errnoOf(error);
  if (errno === "EPIPE") return new BrokenPipe();
  const source = "standard output";
  return errno === undefined ? error : systemError(errno, `Cannot write to ${source}`, { source }, { cause: error });
}
