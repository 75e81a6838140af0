import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { isTareError } from "../../base/errors.ts";
import { strongTag, type Validators } from "../http/headers.ts";
import { addressWithoutSignature } from "../http/signed-url.ts";
import type { ResolveOptions } from "../resolver.ts";
import { type ReadOptions, restOf, type Source, type SourceDescriptor, type StreamOptions } from "../source.ts";
import { allocateFor, ReadGuard } from "./base.ts";

/** Reads and streams of this and beyond are bulk, which nobody looks at twice: they are not kept. */
const MAX_KEPT_BYTES = 64 << 20;
/** Streams are kept in runs of this many bytes, and served from the store in pieces of as many. */
const RUN_BYTES = 4 << 20;
/** Copies that may wait to be written before reads wait for them. */
const MAX_WAITING_BYTES = 32 << 20;

/**
 * Serves what a store has of a file and keeps what it has not. Bytes that are kept are those that arrived: whoever
 * finds them wrong has the store forget them. Closing waits for what is being kept, then closes the source below.
 */
export function withStore(source: Source, store: RangeStore, file: StoredFile, options: StoreOptions = {}): Source {
  return new StoredSource(source, store, file, options.maxKeptBytes ?? MAX_KEPT_BYTES);
}

interface StoreOptions {
  /** Reads and streams of this many bytes and beyond are not kept. */
  readonly maxKeptBytes?: number;
}

class StoredSource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #source: Source;
  readonly #store: RangeStore;
  readonly #file: StoredFile;
  readonly #guard: ReadGuard;
  readonly #keeping = new Set<Promise<void>>();
  readonly #maxKeptBytes: number;
  #waitingBytes = 0;

  constructor(source: Source, store: RangeStore, file: StoredFile, maxKeptBytes: number) {
    this.label = source.label;
    this.byteLength = source.byteLength;
    this.#source = source;
    this.#store = store;
    this.#file = file;
    this.#maxKeptBytes = maxKeptBytes;
    this.#guard = new ReadGuard(source.label, source.byteLength);
  }

  get descriptor(): SourceDescriptor | undefined {
    return this.#source.descriptor;
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    const target = options.into ?? allocateFor(byteLength, this.label);
    const held = await this.#store.get(this.#file, offset, target);
    options.signal?.throwIfAborted();
    this.#guard.checkOpen();
    if (held === byteLength) return target;
    const rest = target.subarray(held);
    await this.#orForget(() =>
      this.#source.read(offset + held, rest.byteLength, { into: rest, signal: options.signal }),
    );
    if (byteLength < this.#maxKeptBytes) await this.#keep(offset + held, rest.slice());
    return target;
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = this.#guard.checkStream(offset, options);
    const end = offset + byteLength;
    let position = offset;
    while (position < end) {
      const piece = new Uint8Array(Math.min(RUN_BYTES, end - position));
      const held = await this.#store.get(this.#file, position, piece);
      options.signal?.throwIfAborted();
      this.#guard.checkOpen();
      if (held === 0) break;
      position += held;
      yield piece.subarray(0, held);
    }
    if (position === end) return;
    const rest = this.#source.stream(position, restOf(options, end - position));
    yield* byteLength >= this.#maxKeptBytes ? this.#watch(rest) : this.#keepStream(this.#watch(rest), position);
  }

  async close(): Promise<void> {
    this.#guard.close();
    await Promise.all(this.#keeping);
    await this.#source.close();
  }

  /** Collects what passes into runs; a stream that is left early keeps what it has got so far. */
  async *#keepStream(pieces: AsyncIterable<Bytes>, offset: number): AsyncGenerator<Bytes> {
    let run: Bytes[] = [];
    let runBytes = 0;
    let start = offset;
    const flush = async (): Promise<void> => {
      const whole = concatBytes(run);
      const at = start;
      start += runBytes;
      run = [];
      runBytes = 0;
      if (whole.byteLength > 0) await this.#keep(at, whole);
    };
    try {
      for await (const piece of pieces) {
        run.push(piece.slice());
        runBytes += piece.byteLength;
        if (runBytes >= RUN_BYTES) await flush();
        yield piece;
      }
    } finally {
      await flush();
    }
  }

  async *#watch(pieces: AsyncIterable<Bytes>): AsyncGenerator<Bytes> {
    try {
      yield* pieces;
    } catch (error) {
      await this.#forgetChanged(error);
      throw error;
    }
  }

  async #orForget(read: () => Promise<unknown>): Promise<void> {
    try {
      await read();
    } catch (error) {
      await this.#forgetChanged(error);
      throw error;
    }
  }

  /** The server has another version now: nobody is to be told that the old one is current. */
  async #forgetChanged(error: unknown): Promise<void> {
    if (isTareError(error) && error.code === "source/http.changed") await this.#store.forget(this.#file.place);
  }

  /** The reader does not wait for the store unless that falls behind. */
  async #keep(offset: number, bytes: Bytes): Promise<void> {
    this.#waitingBytes += bytes.byteLength;
    const keeping = this.#store.put(this.#file, offset, bytes).finally(() => {
      this.#keeping.delete(keeping);
      this.#waitingBytes -= bytes.byteLength;
    });
    this.#keeping.add(keeping);
    if (this.#waitingBytes > MAX_WAITING_BYTES) await keeping;
  }
}

/** One version of one remote file, as a store tells it from all others. */
export interface StoredFile extends StoredVersion {
  /** From `placeOfFile`. May hold the value of a query, so stores keep only a digest of it. */
  readonly place: string;
  /** May be shown and written down: credentials and queries are stripped. */
  readonly label: string;
}

/** What distinguishes the versions of the file at one place. */
export interface StoredVersion {
  /** A strong ETag, or the digest that an index states: at one place, two files that agree in it have the same bytes. */
  readonly validator: string;
  readonly byteLength: number;
  /** From `redirectedTo`: a tag means something only to the server that gave it, and a redirect may lead to another. */
  readonly from?: string | undefined;
}

/**
 * Where an HTTP source keeps runs of bytes between two openings: a folder on disk, a map in memory. Nothing here
 * rejects: a store that fails has nothing, and the bytes come from the server.
 */
export interface RangeStore {
  /** The version that was kept last at a place; undefined where nothing is. */
  recall(place: string): Promise<StoredVersion | undefined>;
  /** Fills the front of `into` with what is kept from `offset` on, unharmed; resolves with how many bytes that was. */
  get(file: StoredFile, offset: number, into: Bytes): Promise<number>;
  /** Keeps a run where there is room. The bytes are not touched after the promise has settled. */
  put(file: StoredFile, offset: number, bytes: Bytes): Promise<void>;
  /** Drops every version at a place. */
  forget(place: string): Promise<void>;
}

/**
 * Where the bytes of a file are kept: under its whole address, without user, password, fragment and signature. What an
 * index states of the file is only a claim until all of the file was hashed. So a pin does not replace the address: it
 * narrows it down, together with the file that states it. Bytes that one index or server called by a digest are then
 * never handed to readers of another.
 */
export function placeOfFile(url: string, stated: Pick<ResolveOptions, "pinned" | "namedBy"> = {}): string {
  const address = `url ${addressWithoutSignature(url)}`;
  const { pinned, namedBy } = stated;
  if (pinned === undefined) return address;
  return `${address} sha256:${pinned.sha256} by ${namedBy === undefined ? "" : addressOf(namedBy)}`;
}

/** The file that names others is known by its address, or by its path where it is local. */
function addressOf(name: string): string {
  return /^https?:/i.test(name) ? addressWithoutSignature(name) : name;
}

/**
 * Where redirects led from `url`; undefined where they did not. Without its query: that of a signed address is another one
 * each time, and nothing would ever be found again.
 */
export function redirectedTo(url: string, finalUrl: string): string | undefined {
  const [asked, answered] = [new URL(url), new URL(finalUrl)].map(({ origin, pathname }) => origin + pathname);
  return asked === answered ? undefined : answered;
}

/** The version behind a reply, or undefined where only the server could tell it from another one: then nothing is kept. */
export function versionOf(validators: Validators, byteLength: number, from?: string): StoredVersion | undefined {
  const validator = strongTag(validators);
  return validator === undefined ? undefined : { validator, byteLength, from };
}

/** True where the bytes kept for `a` are those of `b`. */
export function isSameVersion(a: StoredVersion, b: StoredVersion): boolean {
  return a.validator === b.validator && a.byteLength === b.byteLength && a.from === b.from;
}

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
