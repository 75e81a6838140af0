import { type BigIntStats, constants, type Stats } from "node:fs";
import { type FileHandle, lstat, open, stat, unlink } from "node:fs/promises";
import { dirname } from "node:path";
import type { Bytes } from "../../../base/bytes.ts";
import { SourceError } from "../../../base/errors.ts";
import type { Source } from "../../../bytes/source.ts";
import { existsError } from "../../../operations/pull/errors.ts";
import { decodeJournal, MAX_HEADER_BYTES, type PartialFile, type Replaced } from "../../../operations/pull/store.ts";
import { errnoOf, fileError, ifMissing } from "../errors.ts";
import { strangeness } from "../files/own-folder.ts";
import {
  adoptPermissions,
  identityAt,
  publishExclusive,
  publishReplacing,
  syncFolder,
  withoutAccessList,
} from "../files/partial-files.ts";
import { allocateBytes, readFully, writeAll } from "../files/reads.ts";
import { openFile } from "../files/source.ts";
import type { Sealer } from "../files/user-secret.ts";

/** Suffixes of an incomplete file, and of its journal. */
const PART = ".tare-part";
const JOURNAL = ".tare-pull";

interface PartialPlace {
  /** The path that the file gets when it is complete. */
  readonly target: string;
  /** That path for people. */
  readonly label: string;
  readonly replaced: Replaced;
}

/** Opens what an earlier run left of a file, or begins it. Its folder must exist. */
export async function openPartial(place: PartialPlace, sealer: Sealer): Promise<PartialFile> {
  const { target, label } = place;
  const opened: FileHandle[] = [];
  try {
    // A file cannot replace a folder: report this before the file is fetched, not after.
    const found = await lstat(target).catch(ifMissing);
    if (found?.isDirectory() === true) throw entryError(target, "a folder");
    if (found !== undefined && place.replaced === "nothing") throw existsError(label);
    if (await isPublished(target)) await unlink(target + PART);
    const data = await openOwn(target + PART, found, found?.isFile() === true ? 0o600 : 0o666);
    opened.push(data);
    if (found?.isFile() === true) {
      const mode = await withoutAccessList(found.mode & 0o777, target);
      await adoptPermissions({ handle: data, path: target + PART }, mode, found);
    }
    const journal = await openOwn(target + JOURNAL, found);
    opened.push(journal);
    const seal = sealOf(await data.stat({ bigint: true }), sealer);
    return new DirectoryPartial({ ...place, data, journal }, seal);
  } catch (error) {
    await Promise.allSettled(opened.map((handle) => handle.close()));
    throw error;
  }
}

/** The same for a file under construction and for that file in its place. */
function sealOf({ dev, ino, birthtimeNs }: BigIntStats, sealer: Sealer): string | undefined {
  return sealer.seal(["pull part", dev, ino, birthtimeNs]);
}

/** True if a file has its final name and, since its process died just then, its first name as well. */
async function isPublished(target: string): Promise<boolean> {
  const [part, file] = await Promise.all([identityAt(target + PART), identityAt(target)]);
  return part !== undefined && part === file;
}

/** Tells the states of a file apart: size and time of the last write. */
export function stampOf({ size, mtimeNs }: BigIntStats): string {
  return `${size}:${mtimeNs}`;
}

/**
 * Gives a file under construction its name, unless what is there is not what may be replaced: a file that appeared while
 * the pull ran belongs to someone else.
 */
async function publishInPlaceOf(replaced: Replaced, { target, label }: PartialPlace): Promise<void> {
  const found = replaced === "anything" ? undefined : await stat(target, { bigint: true }).catch(ifMissing);
  if (typeof replaced === "object" && found !== undefined && stampOf(found) !== replaced.stamp)
    throw existsError(label);
  if (replaced === "anything" || (typeof replaced === "object" && found !== undefined)) {
    return publishReplacing(target + PART, target);
  }
  await publishExclusive(target + PART, target).catch((error: unknown) => {
    throw errnoOf(error) === "EEXIST" ? existsError(label) : error;
  });
}

/**
 * A process that dies after the file has its name and before the journal is gone leaves the journal beside the finished
 * file. Only a file that is a journal, and that belongs to no incomplete file, is one.
 */
export async function findLeftover(target: string, sealer: Sealer): Promise<"ours" | "unknown" | undefined> {
  const [journal, part] = await Promise.all([
    lstat(target + JOURNAL).catch(ifMissing),
    lstat(target + PART).catch(ifMissing),
  ]);
  if (journal?.isFile() !== true || journal.nlink > 1) return undefined;
  if (part !== undefined && !(await isPublished(target))) return undefined;
  const identity = decodeJournal(await readHead(target + JOURNAL))?.identity;
  if (identity === undefined) return undefined;
  const file = await lstat(target, { bigint: true }).catch(ifMissing);
  const seal = file?.isFile() === true ? sealOf(file, sealer) : undefined;
  return seal !== undefined && identity.endsWith(` ${seal}`) ? "ours" : "unknown";
}

export async function dropLeftover(target: string): Promise<void> {
  if (await isPublished(target)) await unlink(target + PART).catch(ifMissing);
  await unlink(target + JOURNAL).catch(ifMissing);
}

async function readHead(path: string): Promise<Bytes> {
  const handle = await open(path, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0));
  try {
    const head = new Uint8Array(MAX_HEADER_BYTES);
    const { bytesRead } = await handle.read(head, 0, head.byteLength, 0);
    return head.subarray(0, bytesRead);
  } finally {
    await handle.close();
  }
}

/**
 * Opens a plain file of this folder with no other name: never write through a link that was placed here in advance. It
 * must be ours, or the owner's of the file that it replaces: any other owner could change it once it is checked.
 */
async function openOwn(path: string, replaced: Stats | undefined, mode: number = 0o666): Promise<FileHandle> {
  const existing = await lstat(path).catch(ifMissing);
  if (existing !== undefined && !existing.isFile()) throw entryError(path, "no plain file");
  const handle = await open(path, constants.O_RDWR | constants.O_CREAT | (constants.O_NOFOLLOW ?? 0), mode);
  try {
    // Checks the opened file, which cannot be replaced any more.
    const facts = await handle.stat();
    if (facts.nlink > 1) throw entryError(path, "a hard link to a file that has another name too");
    const problem = strangeness(facts, replaced?.uid);
    if (problem !== undefined) throw entryError(path, problem);
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** `what` completes the sentence: "it is in the way, and …". */
export function entryError(path: string, what: string): SourceError {
  const message = `Cannot write "${path}": it is in the way, and ${what}`;
  return new SourceError("source/pull.entry", message, { source: path }, { hint: "Remove it" });
}

interface PartialParts extends PartialPlace {
  readonly data: FileHandle;
  readonly journal: FileHandle;
}

class DirectoryPartial implements PartialFile {
  readonly seal: string | undefined;
  readonly #parts: PartialParts;
  #journalEnd = 0;
  #recording: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(parts: PartialParts, seal: string | undefined) {
    this.#parts = parts;
    this.seal = seal;
  }

  async readJournal(maxBytes: number): Promise<Bytes> {
    return this.#try(async () => {
      const { journal, target } = this.#parts;
      const { size } = await journal.stat();
      const content = allocateBytes(Math.min(size, maxBytes));
      await readFully(journal, content, { offset: 0, label: target + JOURNAL });
      this.#journalEnd = content.byteLength;
      return content;
    });
  }

  async reset(header: Bytes): Promise<void> {
    await this.#try(async () => {
      const { data, journal } = this.#parts;
      await journal.truncate(0);
      await data.truncate(0);
      await writeAll(journal, header, 0);
      this.#journalEnd = header.byteLength;
    });
  }

  async trimJournal(byteLength: number): Promise<void> {
    await this.#try(() => this.#parts.journal.truncate(byteLength));
    this.#journalEnd = byteLength;
  }

  write(offset: number, bytes: Bytes): Promise<void> {
    return this.#try(() => writeAll(this.#parts.data, bytes, offset));
  }

  record(bytes: Bytes): Promise<void> {
    const at = this.#journalEnd;
    this.#journalEnd += bytes.byteLength;
    this.#recording = this.#recording.then(() => this.#try(() => writeAll(this.#parts.journal, bytes, at)));
    return this.#recording;
  }

  /** The file may be longer than what was written, if the rest is still missing: holes read as zeros. */
  async reopen(byteLength: number): Promise<Source> {
    const { data, target, label } = this.#parts;
    await this.#try(() => data.truncate(byteLength));
    return openFile(target + PART, { label });
  }

  async publish(byteLength: number): Promise<void> {
    const { data, target, replaced } = this.#parts;
    await this.#try(async () => {
      await data.truncate(byteLength);
      await data.sync();
      await this.close();
      await publishInPlaceOf(replaced, this.#parts);
      await unlink(target + JOURNAL);
      await syncFolder(dirname(target));
    });
  }

  async discard(): Promise<void> {
    const { target } = this.#parts;
    await this.close();
    await this.#try(async () => {
      await unlink(target + PART).catch(ifMissing);
      await unlink(target + JOURNAL).catch(ifMissing);
    });
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#recording.catch(() => undefined);
    await Promise.all([this.#parts.data.close(), this.#parts.journal.close()]);
  }

  async #try<T>(action: () => Promise<T>): Promise<T> {
    try {
      return await action();
    } catch (error) {
      throw explain(error, this.#parts.label);
    }
  }
}

/** An error of the system, as one of ours. */
export function explain(error: unknown, label: string, verb: "read" | "write" = "write"): unknown {
  return fileError(error, `Cannot ${verb} "${label}"`, { source: label });
}
