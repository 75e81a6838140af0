import type { Bytes } from "../base/bytes.ts";
import { EMPTY_BYTES } from "../base/bytes.ts";
import { SourceError } from "../base/errors.ts";
import { ReadGuard } from "./read-guard.ts";
import type { ReadOptions, Source, StreamOptions } from "./source.ts";

/** What lies below a store where no request may be made: every byte that is wanted of it is missing. */
export function offlineSource(label: string, byteLength: number): Source {
  return new OfflineSource(label, byteLength);
}

/** The error for what only the network could give. */
export function offlineError(
  label: string,
  range?: { readonly offset: number; readonly byteLength: number },
): SourceError {
  const what =
    range === undefined ? "nothing of it is" : `bytes ${range.offset} to ${range.offset + range.byteLength} are not`;
  const at = { source: label, ...(range === undefined ? {} : { offset: range.offset }) };
  return new SourceError("source/offline", `Cannot read "${label}" offline: ${what} in the cache`, at, {
    hint: "Run the same command once without --offline",
  });
}

class OfflineSource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #guard: ReadGuard;

  constructor(label: string, byteLength: number) {
    this.label = label;
    this.byteLength = byteLength;
    this.#guard = new ReadGuard(label, byteLength);
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    if (byteLength > 0) throw offlineError(this.label, { offset, byteLength });
    return options.into ?? EMPTY_BYTES;
  }

  // biome-ignore lint/correctness/useYield: a source without bytes has nothing to yield
  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = this.#guard.checkStream(offset, options);
    if (byteLength > 0) throw offlineError(this.label, { offset, byteLength });
  }

  close(): Promise<void> {
    this.#guard.close();
    return Promise.resolve();
  }
}
