import { constants } from "node:fs";
import { copyFile, type FileHandle, open, statfs } from "node:fs/promises";
import { dirname } from "node:path";
import { type Bytes, equalBytes } from "../../base/bytes.ts";
import { type ErrorCatalog, isTareError, SourceError } from "../../base/errors.ts";
import { HEADER_BYTES } from "../../formats/aerovault/layout.ts";
import type { VaultDraft } from "../../formats/aerovault/write/draft.ts";
import { errnoOf, fileError } from "./errors.ts";
import { allocateBytes, readFully } from "./file-reads.ts";
import { createPartial, publishExclusive, publishReplacing, removePartial, syncFolder } from "./partial-files.ts";
import { removeHeaderJournal, writeHeaderJournal } from "./vault-journal.ts";

/** Up to this length a vault is copied for every change: that is as fast as anything else, and one rename ends it. */
const COPY_BYTES = 16 << 20;
/** Room that must be left on the disk beyond what a change is known to take. */
const SPARE_BYTES = 1 << 20;

/** The vault as it was opened: a draft is refused at its end where it is another one by then. */
export interface VaultBase {
  /** Its real path, links followed. */
  readonly path: string;
  /** As the user named it. */
  readonly label: string;
  readonly header: Bytes;
  readonly byteLength: number;
  readonly mode: number;
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
      publish: () => publish(partial.path, path),
    });
  });
}

/** An empty file that takes the vault's place at commit: for changes that write every block anew. */
export async function rewriteVaultDraft(base: VaultBase, byteLength: number): Promise<VaultDraft> {
  const { label } = base;
  await checkRoom(base.path, label, byteLength);
  return guarded(label, async () => replacingDraft(base, await createPartial(base)));
}

/**
 * The vault with room for changes: a copy where it is short or the file system clones files, the file itself where
 * neither holds. Either way the cost is that of the change.
 */
export async function updateVaultDraft(base: VaultBase): Promise<VaultDraft> {
  const { path, label, byteLength } = base;
  return guarded(label, async () => {
    const cloned = await copyVault(base, byteLength <= COPY_BYTES ? 0 : constants.COPYFILE_FICLONE_FORCE);
    if (cloned !== undefined) return replacingDraft(base, cloned);
    return new InPlaceDraft(await open(path, "r+"), base);
  });
}

interface PartialFile {
  readonly path: string;
  readonly handle: FileHandle;
}

/** Undefined where the file system does not clone files, or has no room for a copy of a short one. */
async function copyVault(base: VaultBase, mode: number): Promise<PartialFile | undefined> {
  const partial = await createPartial(base);
  await partial.handle.close();
  try {
    await copyFile(base.path, partial.path, mode);
    const handle = await open(partial.path, "r+");
    await handle.chmod(base.mode);
    return { path: partial.path, handle };
  } catch {
    await removePartial(partial.path);
    return undefined;
  }
}

function replacingDraft(base: VaultBase, partial: PartialFile): VaultDraft {
  const publish = async (): Promise<void> => {
    await checkFresh(base);
    await publishReplacing(partial.path, base.path);
    await syncFolder(dirname(base.path));
  };
  return new PartialDraft(partial.handle, { label: base.label, partial: partial.path, publish });
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
  readonly #base: VaultBase;
  readonly #file: DraftFile;
  #state: "open" | "done" = "open";

  constructor(handle: FileHandle, base: VaultBase) {
    this.label = base.label;
    this.descriptor = handle.fd;
    this.#base = base;
    this.#file = new DraftFile(handle, base.label);
  }

  write(offset: number, bytes: Bytes): Promise<void> {
    return this.#file.write(offset, bytes);
  }

  read(offset: number, byteLength: number): Promise<Bytes> {
    return this.#file.read(offset, byteLength);
  }

  async commit(header: Bytes, byteLength: number): Promise<void> {
    const { path } = this.#base;
    const { handle } = this.#file;
    try {
      await guarded(this.label, async () => {
        await handle.datasync();
        await checkFresh(this.#base, "grown");
        await writeHeaderJournal(path, { before: this.#base.header, after: header });
      });
    } catch (error) {
      await this.abort();
      throw error;
    }
    // From here on the header may be torn: what was written and the journal stay, whatever fails.
    this.#state = "done";
    await guarded(this.label, async () => {
      try {
        await this.#file.write(0, header);
        await handle.sync();
        await removeHeaderJournal(path);
        await handle.truncate(byteLength);
      } finally {
        await handle.close();
      }
    });
  }

  /** What was appended goes; what was written into gaps is as unused as it was. */
  async abort(): Promise<void> {
    if (this.#state === "done") return;
    this.#state = "done";
    await this.#file.settle();
    await this.#file.handle.truncate(this.#base.byteLength).catch(() => undefined); // unused bytes at the end do no harm
    await this.#file.handle.close();
    await removeHeaderJournal(this.#base.path).catch(() => undefined);
  }
}

/** Throws `source/vault.changed` where the vault is no longer the one that was opened. */
async function checkFresh(base: VaultBase, length: "same" | "grown" = "same"): Promise<void> {
  const handle = await open(base.path, "r");
  try {
    const { size } = await handle.stat();
    const header = allocateBytes(HEADER_BYTES);
    await readFully(handle, header, { offset: 0, label: base.label });
    const isLengthFine = length === "same" ? size === base.byteLength : size >= base.byteLength;
    if (isLengthFine && equalBytes(header, base.header)) return;
  } finally {
    await handle.close();
  }
  throw new SourceError(
    "source/vault.changed",
    `Cannot write to "${base.label}": something else changed it meanwhile`,
    { source: base.label, offset: 0 },
    { hint: "Nothing was written; run the command again" },
  );
}

/** Refuses before the work, not after it. */
async function checkRoom(path: string, label: string, byteLength: number): Promise<void> {
  const facts = await statfs(dirname(path)).catch(() => undefined); // a system that does not tell: writing will
  if (facts === undefined || facts.bavail * facts.bsize >= byteLength + SPARE_BYTES) return;
  const free = facts.bavail * facts.bsize;
  throw new SourceError(
    "source/no-space",
    `Cannot write "${label}": ${byteLength} bytes are needed, ${free} are free`,
    { source: label },
    { hint: "Free some room on the disk first; the vault is unchanged" },
  );
}

async function guarded<T>(label: string, action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    if (isTareError(error) || errnoOf(error) === undefined) throw error;
    throw fileError(error, `Cannot write "${label}"`, { source: label });
  }
}

/** Errors of changing a vault on disk. */
export const VAULT_DRAFT_ERRORS = {
  "source/vault.changed": {
    what: "Something else changed the vault between opening it and writing to it.",
    why: "Writing now would undo that change. Programs that do not use the lock beside the vault can do this.",
    fix: "Run the command again when nothing else writes to the vault; it is as the other program left it.",
  },
} as const satisfies ErrorCatalog;
