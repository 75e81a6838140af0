import { type BigIntStats, closeSync, fstatSync, openSync, readSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { type Bytes, readMemory } from "../../../base/bytes.ts";
import { isTareError, SourceError } from "../../../base/errors.ts";
import { ReadGuard } from "../../../bytes/layers/base.ts";
import type { ReadOptions, Source, SourceDescriptor, StreamOptions } from "../../../bytes/source.ts";
import type { HeldFile } from "../../../operations/vault/extract/worker.ts";
import { fileError } from "../errors.ts";
import { hasDescriptorPaths } from "./own-folder.ts";
import { allocateBytes } from "./reads.ts";
import { changedError, identityOf } from "./source.ts";

const PIECE_BYTES = 1 << 18;
/** After this many bytes the thread reads its messages: a job must be cancellable although it never waits. */
const TURN_BYTES = 16 << 20;

/** A source that can also be read without a promise; hashing looks for that (primitives/ranges.ts). */
export interface BlockingSource extends Source {
  readNow(offset: number, into: Bytes): void;
}

/**
 * A file read with blocking calls: a worker thread has no other work, and a read that does not change threads costs
 * half as much. Refuses a file that is no longer the one that the descriptor names.
 */
export function openBlockingFile(descriptor: Extract<SourceDescriptor, { readonly kind: "file" }>): BlockingSource {
  const { path } = descriptor;
  let handle: number | undefined;
  try {
    handle = openSync(path, "r");
    const same = identityOf(fstatSync(handle, { bigint: true })) === descriptor.identity;
    if (!same) throw changedError(path);
    const own = handle;
    const close = (): void => closeSync(own);
    return new BlockingFileSource(handle, { label: path, byteLength: descriptor.byteLength, descriptor, close });
  } catch (error) {
    if (handle !== undefined) closeSync(handle);
    throw isTareError(error) ? error : fileError(error, `Cannot open "${path}"`, { source: path });
  }
}

/** A file that another thread keeps open, read with blocking calls. */
export function openHeldFile({ number, byteLength, label }: HeldFile): BlockingSource {
  return new BlockingFileSource(number, { label, byteLength, descriptor: undefined, close: () => undefined });
}

/**
 * Opens a file a second time by the number under which a source has it open, so that workers can read what the source
 * reads, also if the source is closed meanwhile. Undefined if the system cannot do that.
 */
export function holdFile(descriptor: SourceDescriptor | undefined, label: string): HeldOpen | undefined {
  if (descriptor?.kind !== "file" || descriptor.number === undefined || !hasDescriptorPaths()) return undefined;
  let number: number;
  try {
    number = openSync(`/proc/self/fd/${descriptor.number}`, "r");
  } catch {
    return undefined; // workers then open it by its path
  }
  const close = (): void => closeSync(number);
  let facts: BigIntStats;
  try {
    facts = fstatSync(number, { bigint: true });
  } catch {
    close();
    return undefined;
  }
  const { dev, ino } = facts;
  if (descriptor.identity.startsWith(`${dev}:${ino}:`)) {
    return { file: { kind: "held", number, byteLength: descriptor.byteLength, label }, close };
  }
  close(); // the source is closed, and another file has its number
  return undefined;
}

export interface HeldOpen {
  readonly file: HeldFile;
  close(): void;
}

/**
 * Reads a short file in one go, without a Source around it: opening fifty thousand files must cost little more than the
 * system's own calls. Refuses a file that is not, or no longer, the one that the descriptor names.
 */
export function readWholeFile(descriptor: SourceDescriptor, into: Bytes): void {
  if (descriptor.kind !== "file") throw new TypeError(`a file was expected, not ${descriptor.kind}`);
  const { path, identity } = descriptor;
  let handle: number | undefined;
  try {
    handle = openSync(path, "r");
    for (let done = 0; done < into.byteLength; ) {
      const count = readSync(handle, into, done, into.byteLength - done, done);
      if (count === 0) throw changedError(path);
      done += count;
    }
    // Checked once, afterwards: a file that has the descriptor's time and length now had them before the read too.
    if (identityOf(fstatSync(handle, { bigint: true })) !== identity) throw changedError(path);
  } catch (error) {
    throw isTareError(error) ? error : fileError(error, `Cannot read "${path}"`, { source: path });
  } finally {
    if (handle !== undefined) closeSync(handle);
  }
}

interface BlockingFacts {
  readonly label: string;
  readonly byteLength: number;
  readonly descriptor: SourceDescriptor | undefined;
  close(): void;
}

class BlockingFileSource implements BlockingSource {
  readonly label: string;
  readonly byteLength: number;
  readonly descriptor: SourceDescriptor | undefined;
  readonly #handle: number;
  readonly #close: () => void;
  readonly #guard: ReadGuard;
  #open = true;
  #sinceTurn = 0;

  constructor(handle: number, { label, byteLength, descriptor, close }: BlockingFacts) {
    this.#handle = handle;
    this.#close = close;
    this.descriptor = descriptor;
    this.label = label;
    this.byteLength = byteLength;
    this.#guard = new ReadGuard(this.label, this.byteLength);
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    const target = options.into ?? allocateBytes(byteLength);
    if (this.#sinceTurn >= TURN_BYTES) {
      this.#sinceTurn = 0;
      await setImmediate();
      this.#guard.checkRead(offset, byteLength, options);
    }
    this.#sinceTurn += byteLength;
    this.#fill(offset, target, 0);
    return target;
  }

  readNow(offset: number, into: Bytes): void {
    const { byteLength } = into;
    const isInside = this.#open && offset >= 0 && offset + byteLength <= this.byteLength;
    if (!isInside) this.#guard.checkRead(offset, byteLength, { into });
    this.#sinceTurn += byteLength;
    // Nearly always the whole piece comes at once: this function is short so that compiling it costs nothing.
    const count = this.#readSome(offset, into, 0);
    if (count < byteLength) this.#fill(offset, into, count);
  }

  #readSome(offset: number, target: Bytes, done: number): number {
    try {
      return readSync(this.#handle, target, done, target.byteLength - done, offset + done);
    } catch (error) {
      throw fileError(error, `Cannot read "${this.label}"`, { source: this.label, offset: offset + done });
    }
  }

  #fill(offset: number, target: Bytes, from: number): void {
    const { byteLength } = target;
    for (let done = from; done < byteLength; ) {
      const count = this.#readSome(offset, target, done);
      if (count === 0) {
        const message = `Cannot read ${byteLength} bytes at ${offset}: the file ends after ${done} of them`;
        throw new SourceError("source/truncated", message, { source: this.label, offset: offset + done });
      }
      done += count;
    }
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = this.#guard.checkStream(offset, options);
    const buffer = readMemory(Math.min(PIECE_BYTES, byteLength));
    for (let done = 0; done < byteLength; done += PIECE_BYTES) {
      const into = buffer.subarray(0, byteLength - done);
      yield await this.read(offset + done, into.byteLength, { into, signal: options.signal });
    }
  }

  close(): Promise<void> {
    if (this.#open) this.#close();
    this.#open = false;
    this.#guard.close();
    return Promise.resolve();
  }
}
