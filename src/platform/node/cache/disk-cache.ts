import { createHash } from "node:crypto";
import { stat } from "node:fs/promises";
import type { Bytes } from "../../../base/bytes.ts";
import { isTareError } from "../../../base/errors.ts";
import { endOf } from "../../../bytes/extents.ts";
import { type LayeredStore, type StoredFile, type StoredVersion, withStore } from "../../../bytes/layers/store.ts";
import type { Source } from "../../../bytes/source.ts";
import { errnoOf, fileError, fullPath } from "../errors.ts";
import { foreignFolder, foreignness } from "../files/own-folder.ts";
import {
  entriesPath,
  listShelf,
  type NamedRun,
  openPlain,
  removeEntries,
  scanCache,
  shelfPath,
  writeRun,
} from "./folder.ts";
import { pruneCache, readSize, writeSize } from "./prune.ts";
import { checkName, digestPlace, encodeRunHead, isRunOf, type RunHead, readRun, readRunHead } from "./run.ts";

export interface DiskCacheOptions {
  /** The folder and everything in it is made readable only for its owner. */
  readonly folder: string;
  /** Most bytes to keep on disk; 2 GB if absent. */
  readonly maxBytes?: number | undefined;
  /** What counts as one run of a program: this cache alone if absent. */
  readonly session?: CacheSession | undefined;
  /** Called once if the cache cannot be used: reading continues without it. */
  readonly onProblem?: ((message: string, kind: CacheProblem) => void) | undefined;
}

/** "unwritable" if nothing more is kept; "foreign" if the folder is not only ours, so that it is not read either. */
export type CacheProblem = "unwritable" | "foreign";

/** 2 GB: a few hundred control regions and the tensors that people look at, on any disk. */
export const CACHE_BYTES = 2_000_000_000;
/** One run of a program replaces at most this share of the cache, so that a bulk job does not empty it. */
const SESSION_SHARE = 1 / 8;
/** A server runs for ever, so that its share is that of a day. */
const SESSION_MS = 86_400_000;
/** Runs up to this length are always kept: headers and indexes, which users read again and again. */
const SMALL_BYTES = 1 << 20;
/** The share to keep when the cap is reached: more is removed than needed, so that this is rare. */
const PRUNED_SHARE = 0.9;
/**
 * The share of the cap that a process adds before it counts what others added meanwhile. Six at once stay below a tenth
 * over the cap; a count lists the folder, which costs little beside a download of that length.
 */
const UNSEEN_SHARE = 1 / 64;
/** A use is recorded at most once a minute. */
const TOUCH_MS = 60_000;
/** Counts of two processes may miss each other's changes: the cache is counted again once a day. */
const COUNT_MS = 86_400_000;
/** Entries of other processes are seen after this long. */
const LISTING_MS = 1000;

/** How much one run of a program has added, for the caches that it opens one after the other. */
export interface CacheSession {
  addedBytes: number;
  sinceMs: number;
}

const sessions = new Map<string, CacheSession>();

/** That of this process in a folder: every call of the library opens a cache, and a server makes many calls. */
export function sessionIn(folder: string): CacheSession {
  const path = fullPath(folder);
  const session = sessions.get(path) ?? newSession();
  sessions.set(path, session);
  return session;
}

function newSession(): CacheSession {
  return { addedBytes: 0, sinceMs: Date.now() };
}

/**
 * Runs of remote files in a folder, one file each, with checksums. Safe with any number of processes: entries appear
 * whole, by a rename, and are read without locks. An entry that vanishes or is damaged counts as absent, and a damaged
 * one is removed. Checksums do not show who wrote an entry, so a folder that belongs to another user, or that others
 * may write to, is neither read nor written. Close it to record its size.
 */
export class DiskCache implements LayeredStore {
  readonly folder: string;
  readonly maxBytes: number;
  readonly #onProblem: (message: string, kind: CacheProblem) => void;
  readonly #listings = new Map<string, { readonly atMs: number; runs: NamedRun[] }>();
  #state: "working" | "failed" = "working";
  /** By folder. */
  readonly #owners = new Map<string, Promise<"us" | "others">>();
  #size: Promise<number> | undefined;
  /** Bytes that this process added since the size was last recorded. */
  #added = 0;
  /** Bytes that this process added since it last looked at the folder. */
  #unseen = 0;
  readonly #session: CacheSession;
  #pruning: Promise<void> | undefined;

  over(source: Source, file: StoredFile): Source {
    return withStore(source, this, file);
  }

  constructor(options: DiskCacheOptions) {
    this.folder = options.folder;
    this.maxBytes = options.maxBytes ?? CACHE_BYTES;
    this.#session = options.session ?? newSession();
    this.#onProblem = options.onProblem ?? (() => undefined);
  }

  async recall(place: string): Promise<StoredVersion | undefined> {
    const digest = digestPlace(place);
    const shelf = shelfPath(this.folder, digest);
    if ((await this.#ownership(shelf)) === "others") return undefined;
    // Replacing a version drops the old one: several versions mean that two processes did this at once.
    for (const run of await this.#list(shelf)) {
      const head = await this.#use(run, shelf, async (opened) => opened.head);
      if (head?.place === digest)
        return { validator: head.validator, byteLength: head.fileByteLength, from: head.from };
    }
    return undefined;
  }

  async get(file: StoredFile, offset: number, into: Bytes): Promise<number> {
    const shelf = this.#shelfOf(file);
    if ((await this.#ownership(shelf)) === "others") return 0;
    const tag = tagOf(file);
    let runs = (await this.#list(shelf)).filter((run) => run.tag === tag);
    let done = 0;
    while (done < into.byteLength) {
      const position = offset + done;
      const run = longestAt(runs, position);
      if (run === undefined) break;
      const target = into.subarray(done, done + Math.min(into.byteLength - done, endOf(run) - position));
      const isRead = await this.#use(run, shelf, async (opened) => {
        checkName(opened, run);
        if (!isRunOf(opened.head, file)) return undefined;
        await readRun(opened, position - run.offset, target);
        return "read";
      });
      if (isRead === undefined) runs = runs.filter((other) => other !== run);
      else done += target.byteLength;
    }
    return done;
  }

  async put(file: StoredFile, offset: number, bytes: Bytes): Promise<void> {
    if (bytes.byteLength === 0 || this.#state === "failed" || !this.#mayAdd(bytes.byteLength)) return;
    const shelf = this.#shelfOf(file);
    if ((await this.#ownership(shelf)) === "others") return;
    const name = { tag: tagOf(file), offset, byteLength: bytes.byteLength };
    try {
      const runs = await this.#list(shelf);
      const isThere = runs.some((run) => run.tag === name.tag && run.offset <= offset && endOf(run) >= endOf(name));
      if (isThere) return;
      const head = encodeRunHead(file, offset, bytes);
      // Count before adding: the count would include the new entry.
      this.#size ??= this.#count();
      await this.#size;
      // A long run does not wait for the count after it.
      if (bytes.byteLength > this.maxBytes * UNSEEN_SHARE) await this.#makeRoom(bytes.byteLength);
      const run = await writeRun(shelf, name, [head, bytes]);
      this.#listings.get(shelf)?.runs.push(run);
      await this.#grow(head.byteLength + bytes.byteLength);
    } catch (error) {
      // If other programs keep removing the folder, it stays empty; any other error is permanent. Below /proc, a folder
      // that cannot be made is reported as missing.
      const isThere = await stat(this.folder).then(
        () => true,
        () => false,
      );
      if (errnoOf(error) !== "ENOENT" || !isThere) this.#fail(error);
    }
  }

  async forget(place: string): Promise<void> {
    const shelf = shelfPath(this.folder, digestPlace(place));
    if ((await this.#ownership(shelf)) === "others") return;
    this.#listings.delete(shelf);
    await removeEntries(this.folder, await listShelf(shelf)).catch(() => undefined);
  }

  /** Records how much was added, for the next process. */
  async close(): Promise<void> {
    const added = this.#added;
    if (added === 0 || this.#state === "failed") return;
    this.#added = 0;
    const known = await readSize(this.folder);
    // If there is no count yet, the next process counts.
    if (known === undefined) return;
    const size = { bytes: known.bytes + added, countedMs: known.countedMs };
    await writeSize(this.folder, size).catch((error: unknown) => this.#fail(error));
  }

  #shelfOf(file: StoredFile): string {
    return shelfPath(this.folder, digestPlace(file.place));
  }

  async #list(shelf: string): Promise<NamedRun[]> {
    const known = this.#listings.get(shelf);
    if (known !== undefined && Date.now() - known.atMs < LISTING_MS) return known.runs;
    const runs = await listShelf(shelf);
    this.#listings.set(shelf, { atMs: Date.now(), runs });
    return runs;
  }

  /** Undefined if the run is gone, is damaged, or cannot be opened; a damaged one is removed. */
  async #use<T>(run: NamedRun, shelf: string, job: (opened: Opened) => Promise<T>): Promise<T | undefined> {
    const { path } = run;
    const handle = await openPlain(path);
    if (handle === undefined) return undefined;
    try {
      const facts = await handle.stat();
      if (!facts.isFile() || foreignness(facts) !== undefined) return undefined;
      const result = await job({ handle, path, head: await readRunHead(handle, path) });
      const { mtimeMs } = facts;
      const now = new Date();
      if (now.getTime() - mtimeMs > TOUCH_MS) await handle.utimes(now, now).catch(() => undefined);
      return result;
    } catch (error) {
      if (isTareError(error)) {
        await removeEntries(this.folder, [run]).catch(() => undefined);
        this.#listings.delete(shelf);
      }
      return undefined;
    } finally {
      await handle.close();
    }
  }

  /**
   * Checks every folder on the way to the entries of a place, each once: a folder made later is made by us, and entries
   * are checked one by one. A user who may write to a folder can move other entries of ours into it.
   */
  async #ownership(shelf: string): Promise<"us" | "others"> {
    for (const path of [this.folder, entriesPath(this.folder), shelf]) {
      const known = this.#owners.get(path) ?? this.#judge(path);
      this.#owners.set(path, known);
      if ((await known) === "others") return "others";
    }
    return "us";
  }

  async #judge(path: string): Promise<"us" | "others"> {
    // The user may have put the cache elsewhere; a link inside of it is none of ours.
    const why = await foreignFolder(path, path === this.folder ? "follow" : "refuse");
    if (why === undefined) return "us";
    this.#state = "failed";
    this.#onProblem(`The cache folder "${path}" ${why}: nothing in it is used`, "foreign");
    return "others";
  }

  #mayAdd(byteLength: number): boolean {
    const share = this.maxBytes * SESSION_SHARE;
    const session = this.#session;
    if (byteLength > share) return false;
    if (Date.now() - session.sinceMs >= SESSION_MS) Object.assign(session, newSession());
    if (byteLength > SMALL_BYTES && session.addedBytes + byteLength > share) return false;
    session.addedBytes += byteLength;
    return true;
  }

  async #grow(byteLength: number): Promise<void> {
    const size = await this.#size;
    this.#added += byteLength;
    this.#unseen += byteLength;
    const isSeen = this.#unseen <= this.maxBytes * UNSEEN_SHARE;
    if (isSeen && (size ?? 0) + this.#added <= this.maxBytes) return;
    await this.#makeRoom(0);
  }

  /** Counts what all processes keep, and removes entries if there is no room for `byteLength` bytes more. */
  async #makeRoom(byteLength: number): Promise<void> {
    this.#pruning ??= this.#recount(byteLength).finally(() => {
      this.#pruning = undefined;
    });
    await this.#pruning;
  }

  async #recount(byteLength: number): Promise<void> {
    const bytes = (await scanCache(this.folder)).reduce((sum, entry) => sum + entry.size, 0);
    this.#unseen = 0;
    if (bytes + byteLength > this.maxBytes) return this.#prune(byteLength);
    this.#size = Promise.resolve(bytes);
    this.#added = 0;
    if (bytes > 0) await writeSize(this.folder, { bytes, countedMs: Date.now() });
  }

  /** The size that the last process recorded, or a new count if that is too old. */
  async #count(): Promise<number> {
    const known = await readSize(this.folder);
    if (known !== undefined && Date.now() - known.countedMs < COUNT_MS) return known.bytes;
    const entries = await scanCache(this.folder);
    const bytes = entries.reduce((sum, entry) => sum + entry.size, 0);
    await writeSize(this.folder, { bytes, countedMs: Date.now() });
    return bytes;
  }

  async #prune(byteLength: number): Promise<void> {
    const { left } = await pruneCache(this.folder, Math.max(0, this.maxBytes * PRUNED_SHARE - byteLength));
    this.#size = Promise.resolve(left.bytes);
    this.#added = 0;
    this.#listings.clear();
  }

  #fail(error: unknown): void {
    if (this.#state === "failed") return;
    this.#state = "failed";
    const told = fileError(error, `Cannot write to the cache "${this.folder}"`, { source: this.folder });
    this.#onProblem(told instanceof Error ? told.message : String(told), "unwritable");
  }
}

type Opened = Parameters<typeof readRun>[0] & { readonly head: RunHead };

/** The run that reaches furthest from a position. */
function longestAt(runs: readonly NamedRun[], position: number): NamedRun | undefined {
  let best: NamedRun | undefined;
  for (const run of runs) {
    const holds = run.offset <= position && position < endOf(run);
    if (holds && (best === undefined || endOf(run) > endOf(best))) best = run;
  }
  return best;
}

function tagOf({ validator, byteLength, from }: StoredVersion): string {
  const place = from === undefined ? "" : `\n${from}`;
  return createHash("sha256").update(`${byteLength}\n${validator}${place}`).digest("hex").slice(0, 16);
}
