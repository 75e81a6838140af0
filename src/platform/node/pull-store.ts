import { randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, lstat, open, readFile, rename, stat, unlink } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import type { Bytes } from "../../base/bytes.ts";
import { isTareError, SourceError } from "../../base/errors.ts";
import { checkRelativeName } from "../../bytes/relative-name.ts";
import type { Source } from "../../bytes/source.ts";
import type { LocalFile, PartialFile, PullStore } from "../../operations/pull/store.ts";
import { directoryOutput } from "./directory-output.ts";
import { errnoOf, fileError } from "./errors.ts";
import { openFile } from "./file-source.ts";
import { makeFolder } from "./make-folder.ts";
import { publishReplacing, syncFolder } from "./partial-files.ts";

/** Behind the name of a file under construction, and of its journal. */
const PART = ".tare-part";
const JOURNAL = ".tare-pull";
/** In the folder: what was pulled into it, and who is pulling. */
const RECEIPT = ".tare-pull.json";
const LOCK = ".tare-pull.lock";

/** Folders that this process is pulling into. */
const busy = new Set<string>();

/** Opens the folder, which is made where it is missing, for one pull; rejects where another one is at work. */
export async function openPullStore(directory: string): Promise<PullStore> {
  try {
    await makeFolder(directory);
    await takeLock(directory);
  } catch (error) {
    throw explain(error, directory);
  }
  return new DirectoryStore(directory);
}

/** The lock names a process. One that is gone cannot hold it: kill -9 leaves the file behind. */
async function takeLock(directory: string): Promise<void> {
  const path = join(resolve(directory), LOCK);
  if (busy.has(path)) throw lockedError(directory, process.pid);
  for (;;) {
    try {
      const handle = await open(path, "wx", 0o644);
      await handle.writeFile(`${process.pid}\n`);
      await handle.close();
      busy.add(path);
      return;
    } catch (error) {
      if (errnoOf(error) !== "EEXIST") throw error;
    }
    const holder = Number.parseInt(await readFile(path, "utf8").catch(() => ""), 10);
    if (holder !== process.pid && isRunning(holder)) throw lockedError(directory, holder);
    await unlink(path).catch(() => undefined); // another pull may have been faster
  }
}

function isRunning(pid: number): boolean {
  if (!Number.isSafeInteger(pid) || pid <= 0) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return errnoOf(error) === "EPERM"; // it runs, as somebody else
  }
}

function lockedError(directory: string, pid: number): SourceError {
  const message = `Cannot pull into "${directory}": process ${pid} is pulling into it`;
  return new SourceError("source/pull.locked", message, { source: directory }, { hint: "Wait until it has ended" });
}

class DirectoryStore implements PullStore {
  readonly label: string;
  readonly #root: string;
  #saving: Promise<void> = Promise.resolve();

  constructor(directory: string) {
    this.label = directory;
    this.#root = resolve(directory);
  }

  async look(path: string): Promise<LocalFile | undefined> {
    const facts = await stat(this.#path(path), { bigint: true }).catch(ifMissing);
    if (facts === undefined) return undefined;
    return { byteLength: Number(facts.size), stamp: `${facts.size}:${facts.mtimeNs}` };
  }

  open(path: string): Promise<Source> {
    return openFile(this.#path(path), { label: join(this.label, path) });
  }

  async openPartial(path: string): Promise<PartialFile> {
    const target = this.#path(path);
    try {
      if (dirname(target) !== this.#root) await this.#makeFolder(path);
      const data = await openOwn(target + PART);
      const journal = await openOwn(target + JOURNAL);
      return new DirectoryPartial({ data, journal, target, label: join(this.label, path) });
    } catch (error) {
      throw explain(error, join(this.label, path));
    }
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
    const content = await readFile(join(this.#root, RECEIPT)).catch(ifMissing);
    return content === undefined ? undefined : new Uint8Array(content);
  }

  /** One at a time: files of a set are finished together. */
  keepReceipt(bytes: Bytes): Promise<void> {
    const path = join(this.#root, RECEIPT);
    const temporary = `${path}.${process.pid}-${randomBytes(4).toString("hex")}`;
    this.#saving = this.#saving
      .then(async () => {
        const handle = await open(temporary, "wx", 0o644);
        await handle.writeFile(bytes);
        await handle.close();
        await rename(temporary, path);
      })
      .catch((error: unknown) => {
        throw explain(error, path);
      });
    return this.#saving;
  }

  async close(): Promise<void> {
    const path = join(this.#root, LOCK);
    busy.delete(path);
    await unlink(path).catch(() => undefined); // somebody cleaned up
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

/** A plain file of this folder: a link that somebody placed here in advance is never written through. */
async function openOwn(path: string): Promise<FileHandle> {
  const existing = await lstat(path).catch(ifMissing);
  if (existing !== undefined && !existing.isFile()) {
    const message = `Cannot write "${path}": it is in the way, and no plain file`;
    throw new SourceError("source/pull.entry", message, { source: path }, { hint: "Remove it" });
  }
  return open(path, constants.O_RDWR | constants.O_CREAT | (constants.O_NOFOLLOW ?? 0), 0o666);
}

interface PartialParts {
  readonly data: FileHandle;
  readonly journal: FileHandle;
  readonly target: string;
  readonly label: string;
}

class DirectoryPartial implements PartialFile {
  readonly #parts: PartialParts;
  #journalEnd = 0;
  #recording: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(parts: PartialParts) {
    this.#parts = parts;
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
    await unlink(target + PART).catch(ifMissing);
    await unlink(target + JOURNAL).catch(ifMissing);
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

function explain(error: unknown, label: string): unknown {
  if (isTareError(error) || errnoOf(error) === undefined) return error;
  return fileError(error, `Cannot write "${label}"`, { source: label });
}
