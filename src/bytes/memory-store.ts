import type { Bytes } from "../base/bytes.ts";
import { isSameVersion, type RangeStore, type StoredFile, type StoredVersion } from "./range-store.ts";

const MAX_BYTES = 64 << 20;

/** Keeps runs in memory, the least recently used first out: for pages that open the same file again and again. */
export function memoryStore(options: { readonly maxBytes?: number } = {}): RangeStore {
  return new MemoryStore(options.maxBytes ?? MAX_BYTES);
}

interface Run {
  readonly file: StoredFile;
  readonly offset: number;
  readonly bytes: Bytes;
}

class MemoryStore implements RangeStore {
  readonly #maxBytes: number;
  /** Least recently used first. */
  readonly #runs = new Set<Run>();
  #keptBytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  async recall(place: string): Promise<StoredVersion | undefined> {
    return [...this.#runs].filter((run) => run.file.place === place).at(-1)?.file;
  }

  async get(file: StoredFile, offset: number, into: Bytes): Promise<number> {
    let done = 0;
    while (done < into.byteLength) {
      const run = this.#find(file, offset + done);
      if (run === undefined) break;
      const within = offset + done - run.offset;
      const piece = run.bytes.subarray(within, within + into.byteLength - done);
      into.set(piece, done);
      done += piece.byteLength;
    }
    return done;
  }

  async put(file: StoredFile, offset: number, bytes: Bytes): Promise<void> {
    if (bytes.byteLength === 0 || bytes.byteLength > this.#maxBytes / 4) return;
    this.#runs.add({ file, offset, bytes: bytes.slice() });
    this.#keptBytes += bytes.byteLength;
    for (const oldest of this.#runs) {
      if (this.#keptBytes <= this.#maxBytes) return;
      this.#drop(oldest);
    }
  }

  async forget(place: string): Promise<void> {
    for (const run of this.#runs) if (run.file.place === place) this.#drop(run);
  }

  #find(file: StoredFile, position: number): Run | undefined {
    for (const run of this.#runs) {
      const holds = position >= run.offset && position < run.offset + run.bytes.byteLength;
      if (!holds || run.file.place !== file.place || !isSameVersion(run.file, file)) continue;
      this.#runs.delete(run);
      this.#runs.add(run);
      return run;
    }
    return undefined;
  }

  #drop(run: Run): void {
    this.#runs.delete(run);
    this.#keptBytes -= run.bytes.byteLength;
  }
}
