import { constants } from "node:fs";
import { chmod, copyFile, type FileHandle, open, readFile, statfs } from "node:fs/promises";
import { dirname } from "node:path";
import type { Bytes } from "../../base/bytes.ts";
import { isTareError, SourceError, UnsupportedError } from "../../base/errors.ts";
import type { ExpectedRun, VaultDraft } from "../../formats/aerovault/write/draft.ts";
import { errnoOf, fileError } from "./errors.ts";
import { allocateBytes, readFully } from "./file-reads.ts";
import { type InodeLock, lockInode } from "./inode-lock.ts";
import { createPartial, publishExclusive, publishReplacing, removePartial, syncFolder } from "./partial-files.ts";
import { removeHeaderJournal, writeHeaderJournal } from "./vault-journal.ts";
import { checkFresh, checkRuns, type VaultMark } from "./vault-mark.ts";

/** Up to this length a vault is copied for every change: that is as fast as anything else, and one rename ends it. */
const COPY_BYTES = 16 << 20;
/** Room that must be left on the disk beyond what a change is known to take. */
const SPARE_BYTES = 1 << 20;

/** What a system says that cannot clone a file, or has no room for a copy. */
const NO_COPY = new Set(["ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EINVAL", "ENOTTY", "EXDEV", "ENOSPC", "EDQUOT", "EFBIG"]);

/** The vault as it was opened: a draft is refused at its end where it is another one by then. */
export interface VaultBase {
  /** Its real path, links followed. */
  readonly path: string;
  /** As the user named it. */
  readonly label: string;
  readonly mark: VaultMark;
}

/** A file that becomes a new vault at commit; throws `usage/exists` then where something took the name meanwhile. */
export async function createVaultDraft(
  path: string,
  options: { readonly label: string; readonly overwrite: "refuse" | "replace" },
): Promise<VaultDraft> {
  const { label, overwrite } = options;
  return guarded(label, async () => {
    const partial = await createPartial({ path, mode: 0o600 });
    const publish = overwrite === "replace" ? publishReplacing : publishExclusive;
    return new PartialDraft(partial.handle, {
      label,
      partial: partial.path,
      publish: async () => {
        await publish(partial.path, path);
        await afterwards(label, () => syncFolder(dirname(path)));
      },
    });
  });
}

/** An empty file that takes the vault's place at commit: for changes that write every block anew. */
export async function rewriteVaultDraft(base: VaultBase, byteLength: number): Promise<VaultDraft> {
  const { label } = base;
  await checkRoom(base.path, label, byteLength);
  return guarded(label, async () =>
    replacingDraft(base, await createPartial({ path: base.path, mode: base.mark.mode, owner: base.mark.owner })),
  );
}

/**
 * The vault with room for changes: a copy where it is short or the file system clones files, the file itself where
 * neither holds. Either way the cost is that of the change. Only a file that has one name, and no other writer, is written
 * to in its place: the lock beside a vault is that of a name, and says nothing about the other names of the file.
 */
export async function updateVaultDraft(base: VaultBase): Promise<VaultDraft> {
  const { path, label, mark } = base;
  return guarded(label, async () => {
    const isShort = mark.byteLength <= COPY_BYTES;
    // Where the file system does not clone files, or has no room for a copy of a short one, the next best thing follows.
    const cheap = await copyVault(base, isShort ? 0 : constants.COPYFILE_FICLONE_FORCE).catch((error: unknown) => {
      if (NO_COPY.has(errnoOf(error) ?? "")) return undefined;
      throw error;
    });
    if (cheap !== undefined) return replacingDraft(base, cheap);
    const lock = mark.links > 1n ? "taken" : await lockInode(mark);
    if (lock === "taken") {
      await checkRoom(path, label, mark.byteLength);
      return replacingDraft(base, await copyVault(base, 0));
    }
    const own = lock === "unknown" ? undefined : lock;
    try {
      return new InPlaceDraft(await open(path, "r+"), base, own);
    } catch (error) {
      await own?.release();
      throw error;
    }
  });
}

interface PartialFile {
  readonly path: string;
  readonly handle: FileHandle;
}

async function copyVault({ path, mark }: VaultBase, mode: number): Promise<PartialFile> {
  const partial = await createPartial({ path, mode: mark.mode, owner: mark.owner });
  await partial.handle.close();
  try {
    await copyFile(path, partial.path, mode);
    await chmod(partial.path, mark.mode);
    return { path: partial.path, handle: await open(partial.path, "r+") };
  } catch (error) {
    await removePartial(partial.path);
    throw error;
  }
}

function replacingDraft({ path, label, mark }: VaultBase, partial: PartialFile): VaultDraft {
  const publish = async (): Promise<void> => {
    await checkFresh(path, label, mark);
    await publishReplacing(partial.path, path);
    await afterwards(label, () => syncFolder(dirname(path)));
  };
  return new PartialDraft(partial.handle, { label, partial: partial.path, publish });
}

/** Writes that may be under way when a draft ends. */
class DraftFile {
  readonly handle: FileHandle;
  readonly label: string;
  readonly #pending = new Set<Promise<void>>();

  constructor(handle: FileHandle, label: string) {
    this.handle = handle;
    this.label = label;
  }

  write(offset: number, bytes: Bytes): Promise<void> {
    const write = this.#writeAll(offset, bytes).finally(() => this.#pending.delete(write));
    this.#pending.add(write);
    return write;
  }

  async read(offset: number, byteLength: number): Promise<Bytes> {
    const bytes = allocateBytes(byteLength);
    await readFully(this.handle, bytes, { offset, label: this.label });
    return bytes;
  }

  async settle(): Promise<void> {
    await Promise.allSettled(this.#pending);
  }

  async #writeAll(offset: number, bytes: Bytes): Promise<void> {
    try {
      for (let done = 0; done < bytes.byteLength; ) {
        const { bytesWritten } = await this.handle.write(bytes, done, bytes.byteLength - done, offset + done);
        done += bytesWritten;
      }
    } catch (error) {
      throw fileError(error, `Cannot write "${this.label}"`, { source: this.label });
    }
  }
}

interface PartialPlaces {
  readonly label: string;
  readonly partial: string;
  readonly publish: () => Promise<void>;
}

/** A file beside the vault that takes its name. */
class PartialDraft implements VaultDraft {
  readonly label: string;
  readonly descriptor: number;
  readonly #file: DraftFile;
  readonly #places: PartialPlaces;
  #state: "open" | "done" = "open";

  constructor(handle: FileHandle, places: PartialPlaces) {
    this.label = places.label;
    this.descriptor = handle.fd;
    this.#file = new DraftFile(handle, places.label);
    this.#places = places;
  }

  write(offset: number, bytes: Bytes): Promise<void> {
    return this.#file.write(offset, bytes);
  }

  read(offset: number, byteLength: number): Promise<Bytes> {
    return this.#file.read(offset, byteLength);
  }

  async commit(header: Bytes, byteLength: number): Promise<void> {
    try {
      await guarded(this.label, async () => {
        await this.#file.write(0, header);
        await this.#file.handle.truncate(byteLength);
        await this.#file.handle.sync();
        await this.#file.handle.close();
        await this.#places.publish();
        this.#state = "done";
      });
    } catch (error) {
      await this.abort();
      throw error;
    }
  }

  async abort(): Promise<void> {
    if (this.#state === "done") return;
    this.#state = "done";
    await this.#file.settle();
    await this.#file.handle.close();
    await removePartial(this.#places.partial);
  }
}

/** The vault itself: what is written lies outside of the present generation, and the header comes last. */
class InPlaceDraft implements VaultDraft {
  readonly label: string;
  readonly descriptor: number;
  readonly expected: readonly ExpectedRun[];
  readonly #base: VaultBase;
  readonly #file: DraftFile;
  readonly #lock: InodeLock | undefined;
  /** First byte behind everything that was written through this draft. */
  #end = 0;
  #state: "open" | "done" = "open";

  constructor(handle: FileHandle, base: VaultBase, lock: InodeLock | undefined) {
    this.label = base.label;
    this.descriptor = handle.fd;
    this.expected = base.mark.runs;
    this.#base = base;
    this.#file = new DraftFile(handle, base.label);
    this.#lock = lock;
  }

  async write(offset: number, bytes: Bytes): Promise<void> {
    checkRuns(this.descriptor, this.expected, this.label);
    this.#end = Math.max(this.#end, offset + bytes.byteLength);
    await this.#file.write(offset, bytes);
  }

  read(offset: number, byteLength: number): Promise<Bytes> {
    return this.#file.read(offset, byteLength);
  }

  async commit(header: Bytes, byteLength: number): Promise<void> {
    const { path, mark } = this.#base;
    const { handle } = this.#file;
    try {
      await guarded(this.label, async () => {
        await handle.datasync();
        await checkFresh(path, this.label, mark, "same file");
        await writeHeaderJournal(path, { before: mark.header, after: header }, mark.mode);
      });
    } catch (error) {
      await this.abort(byteLength);
      throw error;
    }
    // From here on the header may be torn: what was written and the journal stay, whatever fails.
    this.#state = "done";
    await guarded(this.label, async () => {
      try {
        await this.#file.write(0, header);
        await handle.sync();
        await afterwards(this.label, () => removeHeaderJournal(path));
        // What lies behind the end is nobody's only while the header is ours.
        checkRuns(this.descriptor, [{ offset: 0, bytes: header }], this.label);
        await afterwards(this.label, () => handle.truncate(byteLength));
      } finally {
        await handle.close();
        await this.#lock?.release();
      }
    });
  }

  /**
   * What was appended goes where it is provably ours: the vault is as it was opened, and its file no longer than we made it.
   * What was written into gaps is as unused as it was.
   */
  async abort(end = 0): Promise<void> {
    if (this.#state === "done") return;
    this.#state = "done";
    const { handle } = this.#file;
    const { byteLength } = this.#base.mark;
    await this.#file.settle();
    try {
      checkRuns(this.descriptor, this.expected, this.label);
      const { size } = await handle.stat();
      if (size > byteLength && size <= Math.max(end, this.#end)) await handle.truncate(byteLength);
    } catch {
      // Unused bytes at the end do no harm.
    }
    await handle.close();
    await this.#lock?.release();
  }
}

/**
 * Refuses a file that something is mounted on, as containers do with a single file: no other file can take its place, and
 * the lock beside it is not the one that is seen where the file comes from.
 */
export async function checkReplaceable(path: string, label: string): Promise<void> {
  const mounts = await readFile("/proc/self/mountinfo", "utf8").catch(() => ""); // another system than Linux
  for (const line of mounts.split("\n")) {
    // Spaces, tabs, line breaks and backslashes are written as octal numbers there.
    const point = line
      .split(" ")[4]
      ?.replace(/\\([0-7]{3})/g, (_, code: string) => String.fromCharCode(Number.parseInt(code, 8)));
    if (point !== path) continue;
    const message = `Cannot change "${label}": the file itself is mounted here, so that other writers of it cannot be seen, and no other file can take its place`;
    const hint = "Mount the folder that it is in, or change it where it comes from";
    throw new UnsupportedError("unsupported/vault.mount", message, { source: label }, { hint });
  }
}

/** Refuses before the work, not after it. */
async function checkRoom(path: string, label: string, byteLength: number): Promise<void> {
  const free = await freeBytes(path);
  if (free >= byteLength + SPARE_BYTES) return;
  throw new SourceError(
    "source/no-space",
    `Cannot write "${label}": ${byteLength} bytes are needed, ${free} are free`,
    { source: label },
    { hint: "Free some room on the disk first; the vault is unchanged" },
  );
}

/** True where the disk of a vault has room for so many bytes more. */
export async function hasRoomFor(path: string, byteLength: number): Promise<boolean> {
  return (await freeBytes(path)) >= byteLength + SPARE_BYTES;
}

/** Infinity on a system that does not tell: writing will. */
async function freeBytes(path: string): Promise<number> {
  const facts = await statfs(dirname(path)).catch(() => undefined);
  // File systems that do not count say 0 of 0 blocks.
  return facts === undefined || facts.blocks === 0 ? Number.POSITIVE_INFINITY : facts.bavail * facts.bsize;
}

/** Runs what follows a change that is in place already: whoever is told of a failure must not take the change for failed. */
async function afterwards(label: string, action: () => Promise<void>): Promise<void> {
  try {
    await action();
  } catch (error) {
    const message = `The change of "${label}" is in place, but what follows it failed`;
    const reason = isTareError(error) ? error : fileError(error, message, { source: label });
    if (!isTareError(reason)) throw reason;
    const hint = "Do not repeat the change; look at the vault with tare vault scrub once the cause is mended";
    const text = reason.message.startsWith(message) ? reason.message : `${message}: ${reason.message}`;
    throw new SourceError("source/vault.after-change", text, { source: label }, { hint, cause: error });
  }
}

async function guarded<T>(label: string, action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    if (isTareError(error) || errnoOf(error) === undefined) throw error;
    throw fileError(error, `Cannot write "${label}"`, { source: label });
  }
}
