import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { isTareError } from "../../base/errors.ts";
import { strongTag, type Validators } from "../http/headers.ts";
import { addressWithoutSignature } from "../http/signed-url.ts";
import type { ResolveOptions } from "../resolver.ts";
import { type ReadOptions, restOf, type Source, type SourceDescriptor, type StreamOptions } from "../source.ts";
import { allocateFor, ReadGuard } from "./base.ts";

/** Reads and streams of this length and beyond are bulk, which is seldom read twice: they are not kept. */
const MAX_KEPT_BYTES = 64 << 20;
/** Streams are kept in runs of this many bytes, and served from the store in pieces of the same length. */
const RUN_BYTES = 4 << 20;
/** Copies that may wait to be written before reads wait for them. */
const MAX_WAITING_BYTES = 32 << 20;

/**
 * Serves the bytes that a store has of a file, and keeps those that it lacks. Bytes are kept as they arrive: a reader
 * that finds them wrong tells the store to forget them. Closing waits until the bytes are kept, then closes the source
 * below.
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

  /** Collects pieces into runs. A stream that is left early keeps the bytes that it has got so far. */
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

  /** The server has another version now: the store must not report the old one as current. */
  async #forgetChanged(error: unknown): Promise<void> {
    if (isTareError(error) && error.code === "source/http.changed") await this.#store.forget(this.#file.place);
  }

  /** The reader waits for the store only if too many bytes wait to be written. */
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
 * Keeps runs of bytes for an HTTP source between two openings: a folder on disk, a map in memory. Nothing here rejects:
 * a store that fails has nothing, and the bytes come from the server.
 */
export interface RangeStore {
  /** The version that was kept last at a place; undefined if there is none. */
  recall(place: string): Promise<StoredVersion | undefined>;
  /** Fills the front of `into` with the undamaged bytes that are kept from `offset` on; resolves with their number. */
  get(file: StoredFile, offset: number, into: Bytes): Promise<number>;
  /** Keeps a run if there is room. The bytes are not touched after the promise has settled. */
  put(file: StoredFile, offset: number, bytes: Bytes): Promise<void>;
  /** Drops every version at a place. */
  forget(place: string): Promise<void>;
}

/**
 * A store with the source that reads through it. It brings that itself, so that pages without a store do not load it.
 */
export interface LayeredStore extends RangeStore {
  over(source: Source, file: StoredFile): Source;
}

/** The same for a store of a program's own. */
export function layeredStore(store: RangeStore): LayeredStore {
  return {
    recall: (place) => store.recall(place),
    get: (file, offset, into) => store.get(file, offset, into),
    put: (file, offset, bytes) => store.put(file, offset, bytes),
    forget: (place) => store.forget(place),
    over: (source, file) => withStore(source, store, file),
  };
}

/**
 * The place of a file in a store: its whole address, without user, password, fragment and signature. What an index
 * states about the file is only a claim until the whole file was hashed. So a pin does not replace the address: it
 * narrows it down, together with the file that states it. Bytes that one index or server names by a digest are then
 * never handed to readers of another.
 */
export function placeOfFile(url: string, stated: Pick<ResolveOptions, "pinned" | "namedBy"> = {}): string {
  const address = `url ${addressWithoutSignature(url)}`;
  const { pinned, namedBy } = stated;
  if (pinned === undefined) return address;
  return `${address} sha256:${pinned.sha256} by ${namedBy === undefined ? "" : addressOf(namedBy)}`;
}

/** A file that names others is known by its address, or by its path if it is local. */
function addressOf(name: string): string {
  return /^https?:/i.test(name) ? addressWithoutSignature(name) : name;
}

/**
 * Where redirects led from `url`; undefined if there were none. The query is left out: in a signed address it differs
 * each time, and nothing would ever be found again.
 */
export function redirectedTo(url: string, finalUrl: string): string | undefined {
  const [asked, answered] = [new URL(url), new URL(finalUrl)].map(({ origin, pathname }) => origin + pathname);
  return asked === answered ? undefined : answered;
}

/** The version of a reply; undefined if only the server could tell it from another one: then nothing is kept. */
export function versionOf(validators: Validators, byteLength: number, from?: string): StoredVersion | undefined {
  const validator = strongTag(validators);
  return validator === undefined ? undefined : { validator, byteLength, from };
}

/** True if the bytes kept for `a` are those of `b`. */
export function isSameVersion(a: StoredVersion, b: StoredVersion): boolean {
  return a.validator === b.validator && a.byteLength === b.byteLength && a.from === b.from;
}

const MAX_BYTES = 64 << 20;

/** Keeps runs in memory and drops the least recently used first: for pages that open the same file again and again. */
export function memoryStore(options: { readonly maxBytes?: number } = {}): LayeredStore {
  return new MemoryStore(options.maxBytes ?? MAX_BYTES);
}

interface Run {
  readonly file: StoredFile;
  readonly offset: number;
  readonly bytes: Bytes;
}

class MemoryStore implements LayeredStore {
  over(source: Source, file: StoredFile): Source {
    return withStore(source, this, file);
  }

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
