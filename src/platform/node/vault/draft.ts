import { constants } from "node:fs";
import { chmod, copyFile, type FileHandle, open, statfs } from "node:fs/promises";
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
import { allocateBytes, copyBytes, readFully, writeAll } from "../files/reads.ts";
import { isJournalTaken, removeHeaderJournal, writeHeaderJournal } from "./journal.ts";
import { checkFresh, checkRuns, type VaultMark } from "./mark.ts";

/** A vault up to this length is copied for every change: that is as fast as any other way, and one rename ends it. */
const COPY_BYTES = 16 << 20;
/** Room that must be left on the disk beyond what a change is known to take. */
const SPARE_BYTES = 1 << 20;

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
        await publish(partial.path, path);
        await afterwards(label, () => syncFolder(dirname(path)));
      },
    });
  });
}

/** An empty file that replaces the vault at commit: for changes that write every block again. */
export async function rewriteVaultDraft(base: VaultBase, byteLength: number): Promise<VaultDraft> {
  const { label } = base;
  await checkRoom(base.path, label, byteLength);
  return guarded(label, async () =>
    replacingDraft(base, await createPartial({ path: base.path, mode: base.mark.mode, owner: base.mark.owner })),
  );
}

/**
 * The vault with room for changes: a copy if it is short or the file system clones files, the file itself otherwise.
 * Either way the cost is that of the change. Only a file with one name and no other writer is written in place: the
 * lock beside a vault protects one name, and says nothing about other names of the file.
 */
export async function updateVaultDraft(base: VaultBase): Promise<VaultDraft> {
  const { path, label, mark } = base;
  return guarded(label, async () => {
    const isShort = mark.byteLength <= COPY_BYTES;
    // Only the file itself keeps an access list: a copy of it would be readable by fewer users.
    const isListed = (mark.mode & 0o077) !== 0 && (await findAccessList(path)) === "some";
    // If the file system cannot clone files, or has no room for a copy of a short one, try the next way.
    const copying = isListed ? undefined : copyVault(base, isShort ? 0 : constants.COPYFILE_FICLONE_FORCE);
    const cheap = await copying?.catch((error: unknown) => {
      if (NO_COPY.has(errnoOf(error) ?? "")) return undefined;
      throw error;
    });
    if (cheap !== undefined) return replacingDraft(base, cheap);
    // Without a journal of ours beside it, no header is written in place.
    const mustCopy = mark.links > 1n || (await isJournalTaken(path));
    const lock = mustCopy ? "taken" : await lockInode(mark);
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

function replacingDraft({ path, label, mark }: VaultBase, partial: PartialFile): VaultDraft {
  const publish = async (): Promise<void> => {
    await checkFresh(path, label, mark);
    await publishReplacing(partial.path, path);
    await afterwards(label, () => syncFolder(dirname(path)));
  };
  return new PartialDraft(partial.handle, { label, partial: partial.path, publish });
}

/** Tracks writes that may be pending when a draft ends. */
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
      await writeAll(this.handle, bytes, offset);
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
    this.expected = base.mark.runs;
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

  async commit(header: Bytes, byteLength: number): Promise<void> {
    const { path, mark } = this.#base;
    const { handle } = this.#file;
    try {
      await guarded(this.label, async () => {
        await handle.datasync();
        await checkFresh(path, this.label, mark, "same file");
        await writeHeaderJournal(path, { before: mark.header, after: header }, mark);
      });
    } catch (error) {
      await this.abort(byteLength);
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

/** True if the disk of a vault has room for this many more bytes. */
export async function hasRoomFor(path: string, byteLength: number): Promise<boolean> {
  return (await freeBytes(path)) >= byteLength + SPARE_BYTES;
}

/** Infinity on a system that does not tell: then writing fails. */
async function freeBytes(path: string): Promise<number> {
  const facts = await statfs(dirname(path)).catch(() => undefined);
  // File systems that do not count report 0 of 0 blocks.
  return facts === undefined || facts.blocks === 0 ? Number.POSITIVE_INFINITY : facts.bavail * facts.bsize;
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
