import { constants } from "node:fs";
import { chmod, copyFile, type FileHandle, open } from "node:fs/promises";
import { dirname } from "node:path";
import { type Bytes, equalBytes } from "../../../base/bytes.ts";
import { isTareError, SourceError } from "../../../base/errors.ts";
import type { ExpectedRun, VaultDraft } from "../../../formats/aerovault/write/state.ts";
import { errnoOf, fileError } from "../errors.ts";
import { type InodeLock, lockInode } from "../files/lock.ts";
import { findAccessList } from "../files/own-folder.ts";
import {
  createPartial,
  publishExclusive,
  publishReplacing,
  removePartial,
  syncFolder,
} from "../files/partial-files.ts";
import { copyBytes, DraftFile } from "../files/reads.ts";
import { isJournalTaken, readHeaderJournal, removeHeaderJournal, writeHeaderJournal } from "./journal.ts";
import { checkLockKept, lockRuns } from "./lock.ts";
import { changedMeanwhile, checkFresh, checkKept, checkRuns, type VaultMark } from "./mark.ts";
import { checkRoom } from "./writable.ts";

/** A vault up to this length is copied for every change: that is as fast as any other way, and one rename ends it. */
const COPY_BYTES = 16 << 20;

/** Errors of a system that cannot clone a file, or has no room for a copy. */
const NO_COPY = new Set(["ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EINVAL", "ENOTTY", "EXDEV", "ENOSPC", "EDQUOT", "EFBIG"]);

/** The vault as it was opened: committing a draft is refused if the vault has changed by then. */
export interface VaultBase {
  /** Its real path, with links followed. */
  readonly path: string;
  /** As the user named it. */
  readonly label: string;
  readonly mark: VaultMark;
}

/** A file that becomes a new vault at commit; commit throws `usage/exists` if the name was taken meanwhile. */
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
        checkLockKept(path, label);
        await publish(partial.path, path);
        await afterwards(label, () => syncFolder(dirname(path)));
      },
    });
  });
}

/** An empty file that replaces the vault at commit: for changes that write every block again. */
export async function rewriteVaultDraft(base: VaultBase, byteLength: number): Promise<VaultDraft> {
  const { path, label, mark } = base;
  await checkRoom(path, label, byteLength);
  return guarded(label, () =>
    underInodeLock(mark, async (lock) =>
      replacingDraft(base, await createPartial({ path, mode: mark.mode, owner: mark.owner }), ownLock(lock)),
    ),
  );
}

/**
 * The vault with room for changes: a copy if it is short or the file system clones files, the file itself otherwise.
 * Either way the cost is that of the change. Only a file with one name and no other writer is written in place: the
 * lock beside a vault protects one name, and says nothing about other names of the file.
 */
export async function updateVaultDraft(base: VaultBase): Promise<VaultDraft> {
  const { path, label, mark } = base;
  return guarded(label, () =>
    underInodeLock(mark, async (lock) => {
      const isShort = mark.byteLength <= COPY_BYTES;
      // Only the file itself keeps an access list: a copy of it would be readable by fewer users.
      const isListed = (mark.mode & 0o077) !== 0 && (await findAccessList(path)) === "some";
      // If the file system cannot clone files, or has no room for a copy of a short one, try the next way.
      const copying = isListed ? undefined : copyVault(base, isShort ? 0 : constants.COPYFILE_FICLONE_FORCE);
      const cheap = await copying?.catch((error: unknown) => {
        if (NO_COPY.has(errnoOf(error) ?? "")) return undefined;
        throw error;
      });
      if (cheap !== undefined) return replacingDraft(base, cheap, ownLock(lock));
      // Without a journal of ours beside it, no header is written in place.
      if (mark.links > 1n || lock === "taken" || (await isJournalTaken(path))) {
        await checkRoom(path, label, mark.byteLength);
        return replacingDraft(base, await copyVault(base, 0), ownLock(lock));
      }
      return new InPlaceDraft(await open(path, "r+"), base, ownLock(lock));
    }),
  );
}

type FoundLock = Awaited<ReturnType<typeof lockInode>>;

/** Keeps writers under other names of the file from writing in place, until the draft that is made here has ended. */
async function underInodeLock<T>(mark: VaultMark, make: (lock: FoundLock) => Promise<T>): Promise<T> {
  const lock = await lockInode(mark);
  try {
    return await make(lock);
  } catch (error) {
    await ownLock(lock)?.release();
    throw error;
  }
}

function ownLock(lock: FoundLock): InodeLock | undefined {
  return typeof lock === "string" ? undefined : lock;
}

type PartialFile = Awaited<ReturnType<typeof createPartial>>;

async function copyVault({ path, mark }: VaultBase, flags: number): Promise<PartialFile> {
  const partial = await createPartial({ path, mode: mark.mode, owner: mark.owner });
  const isClone = flags === constants.COPYFILE_FICLONE_FORCE;
  try {
    // The system gives a copy that it makes all bits of the vault, which are too many for another group.
    if (partial.mode !== mark.mode) {
      if (isClone) throw Object.assign(new Error("not cloned"), { code: "ENOTSUP" });
      await copyBytes(path, partial.handle, mark.byteLength);
      return partial;
    }
    await partial.handle.close();
    await copyFile(path, partial.path, flags);
    await chmod(partial.path, mark.mode);
    return { ...partial, handle: await open(partial.path, "r+") };
  } catch (error) {
    await partial.handle.close();
    await removePartial(partial.path);
    throw error;
  }
}

function replacingDraft(
  { path, label, mark }: VaultBase,
  partial: PartialFile,
  lock: InodeLock | undefined,
): VaultDraft {
  const publish = async (): Promise<void> => {
    await checkFresh(path, label, mark);
    // Last of all, because comparing takes long: a writer that took the lock meanwhile would lose its change.
    checkLockKept(path, label);
    await publishReplacing(partial.path, path);
    await afterwards(label, () => syncFolder(dirname(path)));
  };
  return new PartialDraft(partial.handle, { label, partial: partial.path, publish, lock });
}

interface PartialPlaces {
  readonly label: string;
  readonly partial: string;
  readonly publish: () => Promise<void>;
  /** Released when the draft ends. */
  readonly lock?: InodeLock | undefined;
}

/** A file beside the vault that takes its name at commit. */
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
      await this.#places.lock?.release();
    } catch (error) {
      await this.abort();
      throw error;
    }
  }

  async abort(): Promise<void> {
    if (this.#state === "done") return;
    this.#state = "done";
    try {
      await this.#file.settle();
      await this.#file.handle.close();
      await removePartial(this.#places.partial);
    } finally {
      await this.#places.lock?.release();
    }
  }
}

/** The vault itself: new bytes are outside of the current generation, and the header comes last. */
class InPlaceDraft implements VaultDraft {
  readonly label: string;
  readonly descriptor: number;
  readonly expected: readonly ExpectedRun[];
  readonly #base: VaultBase;
  readonly #file: DraftFile;
  readonly #lock: InodeLock | undefined;
  /** The first byte after everything that was written through this draft. */
  #written = 0;
  #state: "open" | "done" = "open";

  constructor(handle: FileHandle, base: VaultBase, lock: InodeLock | undefined) {
    this.label = base.label;
    this.descriptor = handle.fd;
    this.expected = [...lockRuns(base.path), ...base.mark.runs];
    this.#base = base;
    this.#file = new DraftFile(handle, base.label);
    this.#lock = lock;
  }

  async write(offset: number, bytes: Bytes): Promise<void> {
    checkRuns(this.descriptor, this.expected, this.label);
    this.#written = Math.max(this.#written, offset + bytes.byteLength);
    await this.#file.write(offset, bytes);
  }

  read(offset: number, byteLength: number): Promise<Bytes> {
    return this.#file.read(offset, byteLength);
  }

  async commit(header: Bytes, byteLength: number, end: number = byteLength): Promise<void> {
    const { path, mark } = this.#base;
    const { handle } = this.#file;
    try {
      await guarded(this.label, async () => {
        await handle.datasync();
        await checkFresh(path, this.label, mark, "same file");
        await this.#checkLength(Math.max(mark.byteLength, end, this.#written));
        await writeHeaderJournal(path, { before: mark.header, after: header }, mark);
        // Last of all, because comparing takes long, and so does the journal.
        await this.#checkOwn(header);
      });
    } catch (error) {
      await this.abort(end);
      throw error;
    }
    this.#state = "done";
    try {
      await this.#placeHeader(header, byteLength);
      // Readers see the change from here on. While the header may not be on the disk, the journal and what either header
      // refers to stay: a power failure then leaves one of the two, or what the journal completes.
      await afterwards(this.label, async () => {
        await handle.sync();
        await removeHeaderJournal(path);
      });
      await checkKept(path, this.label, mark);
      await afterwards(this.label, async () => {
        // Bytes after the end are unused only as long as the header is ours.
        checkRuns(this.descriptor, [{ offset: 0, bytes: header }], this.label);
        await handle.truncate(byteLength);
      });
    } catch (error) {
      await this.#end().catch(() => undefined);
      throw error;
    }
    await afterwards(this.label, () => this.#end());
  }

  /** A file of another length has bytes of another writer, who can have written over ours, or lacks some of ours. */
  async #checkLength(byteLength: number): Promise<void> {
    const { size } = await this.#file.handle.stat();
    if (size !== byteLength) throw changedMeanwhile(this.label);
  }

  /** Compares lock and header once more; if they are not ours, takes the journal away if it is still the one for `header`. */
  async #checkOwn(header: Bytes): Promise<void> {
    const { path } = this.#base;
    try {
      checkRuns(this.descriptor, this.expected, this.label);
    } catch (error) {
      const journal = await readHeaderJournal(path).catch(() => undefined); // the error at hand matters more
      if (journal !== undefined && equalBytes(journal.after, header)) await removeHeaderJournal(path);
      throw error;
    }
  }

  /** If the header cannot be written, the old one is put back. If neither can, the journal completes the new one. */
  async #placeHeader(header: Bytes, byteLength: number): Promise<void> {
    try {
      await this.#file.write(0, header);
    } catch (error) {
      if (!(await this.#putBack())) await afterwards(this.label, () => Promise.reject(error));
      try {
        await this.#file.handle.sync();
        await removeHeaderJournal(this.#base.path);
        await this.#cutOff(byteLength);
      } catch {
        // The old header is in its place. The next writer makes it durable, and removes the journal.
      }
      throw error;
    }
  }

  /** True if the vault has its old header. */
  async #putBack(): Promise<boolean> {
    const { header } = this.#base.mark;
    try {
      if (!equalBytes(await this.read(0, header.byteLength), header)) await this.#file.write(0, header);
      return true;
    } catch {
      return false;
    }
  }

  /**
   * Cuts off appended bytes if they are provably ours: the vault is as it was opened, and its file is no longer than we
   * made it. Bytes written into gaps are still unused.
   */
  async abort(end = 0): Promise<void> {
    if (this.#state === "done") return;
    this.#state = "done";
    await this.#file.settle();
    try {
      await this.#cutOff(end);
    } catch {
      // Unused bytes at the end do no harm.
    }
    await this.#end();
  }

  async #cutOff(end: number): Promise<void> {
    const { handle } = this.#file;
    const { byteLength } = this.#base.mark;
    checkRuns(this.descriptor, this.expected, this.label);
    const { size } = await handle.stat();
    if (size > byteLength && size <= Math.max(end, this.#written)) await handle.truncate(byteLength);
  }

  async #end(): Promise<void> {
    await this.#file.handle.close();
    await this.#lock?.release();
  }
}

/**
 * Runs a step after the change is in place: if it fails, the error must not make the change look failed. Also one that a
 * caller's function throws.
 */
export async function afterwards<T>(label: string, action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    if (isAfterChange(error)) throw error;
    const message = `The change of "${label}" is in place, but what follows it failed`;
    const reason = isTareError(error) ? error : fileError(error, message, { source: label });
    const told = reason instanceof Error ? reason.message : String(reason);
    const text = told.startsWith(message) ? told : `${message}: ${told}`;
    const hint = "Do not repeat the change; look at the vault with tare vault scrub once the cause is mended";
    throw new SourceError("source/vault.after-change", text, { source: label }, { hint, cause: error });
  }
}

/** True for the error of a change that is in place. */
export function isAfterChange(error: unknown): boolean {
  return isTareError(error) && ["source/vault.after-change", "source/vault.sidecar-kept"].includes(error.code);
}

async function guarded<T>(label: string, action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    if (isTareError(error) || errnoOf(error) === undefined) throw error;
    throw fileError(error, `Cannot write "${label}"`, { source: label });
  }
}
