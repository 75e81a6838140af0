import { randomBytes } from "node:crypto";
import { type BigIntStats, constants } from "node:fs";
import { type FileHandle, lstat, open, readFile, rename, stat, statfs, unlink } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import type { Bytes } from "../../base/bytes.ts";
import { isTareError, SourceError } from "../../base/errors.ts";
import { checkRelativeName } from "../../bytes/resolver.ts";
import type { Source } from "../../bytes/source.ts";
import type { LocalFile, PartialFile, PullStore } from "../../operations/pull/store.ts";
import { directoryOutput } from "./directory-output.ts";
import { errnoOf, fileError } from "./errors.ts";
import { openFile } from "./file-source.ts";
import { makeFolder } from "./make-folder.ts";
import { publishReplacing, syncFolder } from "./partial-files.ts";
import type { Environment } from "./proxy-environment.ts";
import { lockPullFolder, type PullLock } from "./pull-lock.ts";
import { Sealer } from "./user-secret.ts";

/** Behind the name of a file under construction, and of its journal. */
const PART = ".tare-part";
const JOURNAL = ".tare-pull";
/** In the folder: what was pulled into it. */
const RECEIPT = ".tare-pull.json";
/** Some 300 bytes a file, and 100 000 files. */
const MAX_RECEIPT_BYTES = 64 << 20;

export interface PullStoreOptions {
  /** Where the user's state is kept is told by it: `process.env` where absent. */
  readonly environment?: Environment | undefined;
}

/** Opens the folder, which is made where it is missing, for one pull; rejects where another one is at work. */
export async function openPullStore(directory: string, options: PullStoreOptions = {}): Promise<PullStore> {
  try {
    await makeFolder(directory);
    const sealer = await Sealer.open(options.environment ?? process.env);
    return new DirectoryStore(directory, sealer, await lockPullFolder(directory, sealer));
  } catch (error) {
    throw explain(error, directory);
  }
}

class DirectoryStore implements PullStore {
  readonly label: string;
  readonly #root: string;
  readonly #sealer: Sealer;
  readonly #lock: PullLock;
  #saving: Promise<void> = Promise.resolve();

  constructor(directory: string, sealer: Sealer, lock: PullLock) {
    this.label = directory;
    this.#root = resolve(directory);
    this.#sealer = sealer;
    this.#lock = lock;
  }

  async look(path: string): Promise<LocalFile | undefined> {
    const facts = await this.#stat(path);
    if (facts === undefined) return undefined;
    return { byteLength: Number(facts.size), stamp: `${facts.size}:${facts.mtimeNs}` };
  }

  open(path: string): Promise<Source> {
    return openFile(this.#path(path), { label: join(this.label, path) });
  }

  async openPartial(path: string): Promise<PartialFile> {
    const target = this.#path(path);
    const opened: FileHandle[] = [];
    try {
      if (dirname(target) !== this.#root) await this.#makeFolder(path);
      // No file takes the place of a folder: better told before the file is fetched than after.
      if ((await lstat(target).catch(ifMissing))?.isDirectory() === true) throw entryError(target, "a folder");
      const data = await openOwn(target + PART);
      opened.push(data);
      const journal = await openOwn(target + JOURNAL);
      opened.push(journal);
      const { dev, ino, birthtimeNs } = await data.stat({ bigint: true });
      const seal = this.#sealer.seal(["pull part", dev, ino, birthtimeNs]);
      return new DirectoryPartial({ data, journal, target, label: join(this.label, path) }, seal);
    } catch (error) {
      await Promise.allSettled(opened.map((handle) => handle.close()));
      throw explain(error, join(this.label, path));
    }
  }

  async freeBytes(): Promise<number | undefined> {
    const facts = await statfs(this.#root).catch(() => undefined);
    // File systems that do not count say 0 of 0 blocks.
    return facts === undefined || facts.blocks === 0 ? undefined : facts.bavail * facts.bsize;
  }

  async replace(path: string, bytes: Bytes): Promise<void> {
    const output = directoryOutput(this.#root, "", { overwrite: "replace" });
    const sink = await output.create(path);
    try {
      await sink.append(bytes);
      await sink.commit();
    } catch (error) {
      await sink.abort();
      throw error;
    }
  }

  async readReceipt(): Promise<Bytes | undefined> {
    const path = join(this.#root, RECEIPT);
    try {
      // A pipe would never end, and nobody writes so long a receipt.
      const facts = await lstat(path).catch(ifMissing);
      // A new receipt takes the place of anything else, after the first file has come.
      if (facts?.isDirectory() === true) throw entryError(path, "a folder");
      if (facts === undefined || !facts.isFile() || facts.size > MAX_RECEIPT_BYTES) return undefined;
      const content = await readFile(path).catch(ifMissing);
      return content === undefined ? undefined : new Uint8Array(content);
    } catch (error) {
      throw explain(error, path, "read");
    }
  }

  /** One at a time: files of a set are finished together. */
  keepReceipt(bytes: Bytes): Promise<void> {
    const path = join(this.#root, RECEIPT);
    const save = async (): Promise<void> => {
      try {
        await replaceFile(path, bytes);
      } catch (error) {
        throw explain(error, path);
      }
    };
    // One that failed, on a full disk say, is told to whoever kept it and stops none of those behind it.
    this.#saving = this.#saving.then(save, save);
    return this.#saving;
  }

  close(): Promise<void> {
    return this.#lock.release();
  }

  /** The system sets the time of the last change itself, so a file that was swapped or came from elsewhere has another. */
  async seal(path: string, facts: readonly string[]): Promise<string | undefined> {
    const found = await this.#stat(path);
    if (found === undefined) return undefined;
    const { dev, ino, size, mtimeNs, ctimeNs } = found;
    return this.#sealer.seal(["pull receipt", dev, ino, size, mtimeNs, ctimeNs, path, ...facts]);
  }

  async #stat(path: string): Promise<BigIntStats | undefined> {
    try {
      return await stat(this.#path(path), { bigint: true }).catch(ifMissing);
    } catch (error) {
      throw explain(error, join(this.label, path), "read");
    }
  }

  #path(path: string): string {
    checkRelativeName(path, { source: this.label });
    return join(this.#root, path);
  }

  /** Through the Output, which refuses ways that a link leads out of the folder. */
  async #makeFolder(path: string): Promise<void> {
    const sink = await directoryOutput(this.#root, "", { overwrite: "replace" }).create(`${path}${PART}.probe`);
    await sink.abort();
  }
}

/** Written aside, so that the file is always whole: the old one or the new one. */
async function replaceFile(path: string, bytes: Bytes): Promise<void> {
  const temporary = `${path}.${process.pid}-${randomBytes(4).toString("hex")}`;
  const handle = await open(temporary, "wx", 0o644);
  try {
    try {
      await handle.writeFile(bytes);
    } finally {
      await handle.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await unlink(temporary).catch(() => undefined);
    throw error;
  }
}

/** A plain file of this folder and of no other name: a link that somebody placed here in advance is never written through. */
async function openOwn(path: string): Promise<FileHandle> {
  const existing = await lstat(path).catch(ifMissing);
  if (existing !== undefined && !existing.isFile()) throw entryError(path, "no plain file");
  const handle = await open(path, constants.O_RDWR | constants.O_CREAT | (constants.O_NOFOLLOW ?? 0), 0o666);
  try {
    // Asked of what was opened, which nobody can exchange any more.
    if ((await handle.stat()).nlink > 1) throw entryError(path, "a hard link to a file that has another name too");
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** `what` completes the sentence: "it is in the way, and …". */
function entryError(path: string, what: string): SourceError {
  const message = `Cannot write "${path}": it is in the way, and ${what}`;
  return new SourceError("source/pull.entry", message, { source: path }, { hint: "Remove it" });
}

interface PartialParts {
  readonly data: FileHandle;
  readonly journal: FileHandle;
  readonly target: string;
  readonly label: string;
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

  async readJournal(): Promise<Bytes> {
    return this.#try(async () => {
      const content = await this.#parts.journal.readFile();
      this.#journalEnd = content.byteLength;
      return new Uint8Array(content);
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

  /** Longer than what was written where the rest is still missing: holes read as zeros. */
  async reopen(byteLength: number): Promise<Source> {
    const { data, target, label } = this.#parts;
    await this.#try(() => data.truncate(byteLength));
    return openFile(target + PART, { label });
  }

  async publish(byteLength: number): Promise<void> {
    const { data, target } = this.#parts;
    await this.#try(async () => {
      await data.truncate(byteLength);
      await data.sync();
      await this.close();
      await publishReplacing(target + PART, target);
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

async function writeAll(handle: FileHandle, bytes: Bytes, offset: number): Promise<void> {
  let done = 0;
  while (done < bytes.byteLength) {
    const { bytesWritten } = await handle.write(bytes, done, bytes.byteLength - done, offset + done);
    done += bytesWritten;
  }
}

function ifMissing(error: unknown): undefined {
  if (errnoOf(error) === "ENOENT") return undefined;
  throw error;
}

function explain(error: unknown, label: string, verb: "read" | "write" = "write"): unknown {
  if (isTareError(error) || errnoOf(error) === undefined) return error;
  return fileError(error, `Cannot ${verb} "${label}"`, { source: label });
}
