import type { Bytes } from "../../base/bytes.ts";
import { isTareError, SourceError, UsageError } from "../../base/errors.ts";
import { printable } from "../../base/text.ts";
import type { ReadOptions, Source, StreamOptions } from "../../bytes/source.ts";
import type { Archive, Entry } from "../../model/archive.ts";
import type { Opened } from "../../model/format.ts";
import { provesDamage } from "../input-use.ts";
import type { OpenedInput } from "../inputs.ts";

/** One state of a vault, opened. */
interface State {
  readonly archive: Archive;
  users: number;
}

/** The right to read one state: it stays open until this is released. */
export interface Lease {
  readonly archive: Archive;
  release(): void;
}

/**
 * The state of a vault that a program reads. A change puts a new one in its place; the old one is closed when its last
 * reader has ended.
 */
export class HeldArchive {
  readonly label: string;
  readonly #how: Omit<Opened, "container">;
  readonly #isSame: (before: Entry, after: Entry) => boolean;
  /** Closes what was opened first, with everything that came with it. */
  readonly #closeFirst: () => Promise<void>;
  readonly #first: Archive;
  #state: State;
  readonly #retired = new Set<State>();
  #closing: Promise<void> | undefined;
  #isDoubted = false;

  constructor(opened: OpenedInput & { readonly container: Archive }, isSame: (before: Entry, after: Entry) => boolean) {
    const { container, label } = opened;
    this.label = label;
    this.#how = opened;
    this.#isSame = isSame;
    this.#first = container;
    this.#closeFirst = () => (this.#isDoubted ? opened.distrust() : opened.close());
    this.#state = { archive: container, users: 0 };
  }

  get isClosed(): boolean {
    return this.#closing !== undefined;
  }

  /** The last state, also of a closed vault: what is known of it without reading. */
  get last(): Archive {
    return this.#state.archive;
  }

  /** The vault as it is now; throws once it is closed. */
  get archive(): Archive {
    this.check();
    return this.#state.archive;
  }

  check(): void {
    if (!this.isClosed) return;
    const message = `Cannot use the vault "${printable(this.label)}": it is closed`;
    throw new UsageError("usage/vault.closed", message, { source: this.label }, { hint: "Open it again" });
  }

  /** Holds the state of now for a reader. */
  lease(): Lease {
    this.check();
    const state = this.#state;
    state.users++;
    let isHeld = true;
    return {
      archive: state.archive,
      release: () => {
        if (!isHeld) return;
        isHeld = false;
        state.users--;
        if (state.users === 0 && this.#retired.delete(state)) this.#end(state);
      },
    };
  }

  /** The state of now as other verbs take it. */
  opened(): Opened & { release(): void } {
    const { archive, release } = this.lease();
    return { ...this.#how, container: archive, release };
  }

  /** A change was made: from now on this is the vault. */
  replace(archive: Archive): void {
    if (this.isClosed) {
      void archive.close().catch(() => undefined);
      return;
    }
    const before = this.#state;
    this.#state = { archive, users: 0 };
    if (before.users === 0) this.#end(before);
    else this.#retired.add(before);
  }

  /** Some bytes proved wrong. They may be wrong only in a cache, which drops them when the vault is closed. */
  doubt(): void {
    this.#isDoubted = true;
  }

  /** Runs a read. One that breaks because the vault is closed meanwhile says so: it is not damage. */
  async reading<T>(use: (archive: Archive) => Promise<T>): Promise<T> {
    const lease = this.lease();
    try {
      return await use(lease.archive);
    } catch (error) {
      if (isTareError(error)) this.check();
      if (provesDamage(error)) this.doubt();
      throw error;
    } finally {
      lease.release();
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#closeAll();
    return this.#closing;
  }

  async #closeAll(): Promise<void> {
    const states = [...this.#retired, this.#state];
    this.#retired.clear();
    for (const { archive } of states) if (archive !== this.#first) await archive.close();
    await this.#closeFirst();
  }

  #end({ archive }: State): void {
    // What was opened first has more than a file: it is closed at the end. Nothing is lost if a file does not close.
    if (archive !== this.#first) void archive.close().catch(() => undefined);
    else void this.#closeFirst().catch(() => undefined);
  }

  /** The bytes of a file of `archive`, whatever changes of the vault come after: as long as the file itself is the same. */
  source(entry: Entry, archive: Archive): Source {
    this.check();
    return new HeldSource(this, { archive, entry }, this.#isSame);
  }
}

/** A file or directory, and the state of the vault that has it. */
interface FoundEntry {
  readonly archive: Archive;
  readonly entry: Entry;
}

/** A file of a vault, read from the state of now. */
class HeldSource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #held: HeldArchive;
  readonly #entry: Entry;
  readonly #isSame: (before: Entry, after: Entry) => boolean;
  /** The state that was read last, and the file in it. */
  #known: { readonly archive: Archive; readonly source: Source };
  #isClosed = false;

  constructor(held: HeldArchive, { archive, entry }: FoundEntry, isSame: (before: Entry, after: Entry) => boolean) {
    this.#held = held;
    this.#entry = entry;
    this.#isSame = isSame;
    const source = entry.source();
    this.label = source.label;
    this.byteLength = source.byteLength;
    // The state that the file was found in, which may be an earlier one and closed: reads then look for the file again.
    this.#known = { archive, source };
  }

  read(offset: number, byteLength: number, options?: ReadOptions): Promise<Bytes> {
    return this.#held.reading((archive) => this.#sourceIn(archive).read(offset, byteLength, options));
  }

  async *stream(offset: number, options?: StreamOptions): AsyncGenerator<Bytes> {
    const lease = this.#held.lease();
    try {
      for await (const piece of this.#sourceIn(lease.archive).stream(offset, options)) {
        this.#held.check();
        yield piece;
      }
    } catch (error) {
      // What breaks because the vault was closed meanwhile is not damage.
      if (isTareError(error)) this.#held.check();
      if (provesDamage(error)) this.#held.doubt();
      throw error;
    } finally {
      lease.release();
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#known.source.close();
  }

  #sourceIn(archive: Archive): Source {
    if (this.#isClosed || archive === this.#known.archive) return this.#known.source;
    const found = findEntry(archive, this.#entry.path);
    if (found === undefined || !this.#isSame(this.#entry, found)) {
      const message = `Cannot go on reading "${printable(this.label)}": the vault was changed, and the file is another one or gone`;
      throw new SourceError("source/changed", message, { source: this.label }, { hint: "Read the file again" });
    }
    this.#known = { archive, source: found.source() };
    return this.#known.source;
  }
}

/** The entry of this path; undefined if there is none. */
export function findEntry(archive: Archive, path: string): Entry | undefined {
  try {
    return archive.entry(path);
  } catch (error) {
    if (isTareError(error) && error.code === "usage/entry-not-found") return undefined;
    throw error;
  }
}

/** A file or directory of a vault that may change: its bytes can be read as long as it is the same. */
export class HeldEntry implements Entry {
  readonly #held: HeldArchive;
  readonly #archive: Archive;
  readonly #entry: Entry;

  constructor(held: HeldArchive, { archive, entry }: FoundEntry) {
    this.#held = held;
    this.#archive = archive;
    this.#entry = entry;
  }

  get path(): string {
    return this.#entry.path;
  }

  get type(): Entry["type"] {
    return this.#entry.type;
  }

  get size(): number {
    return this.#entry.size;
  }

  get modified(): number | undefined {
    return this.#entry.modified;
  }

  get mode(): number | undefined {
    return this.#entry.mode;
  }

  sharesContent(other: Entry): boolean {
    return this.#entry.sharesContent?.(other instanceof HeldEntry ? other.#entry : other) ?? false;
  }

  source(): Source {
    return this.#held.source(this.#entry, this.#archive);
  }

  toJSON(): Pick<Entry, "path" | "type" | "size" | "modified" | "mode"> {
    const { path, type, size, modified, mode } = this;
    return { path, type, size, modified, mode };
  }
}
