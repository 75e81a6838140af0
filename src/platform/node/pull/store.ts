import type { BigIntStats } from "node:fs";
import { lstat, readFile, stat, statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Bytes } from "../../../base/bytes.ts";
import { checkRelativeName } from "../../../bytes/resolver.ts";
import type { Source } from "../../../bytes/source.ts";
import type { LocalFile, PartialFile, PullStore, Replaced } from "../../../operations/pull/store.ts";
import { fullPath, ifMissing } from "../errors.ts";
import { directoryOutput, makeFolderInside } from "../files/directory.ts";
import { firstMissing, makeFolder, removeEmptyFolders } from "../files/own-folder.ts";
import { openFile } from "../files/source.ts";
import { Sealer } from "../files/user-secret.ts";
import type { Environment } from "../http/proxy-environment.ts";
import { lockPullFolder, type PullLock } from "./lock.ts";
import { dropLeftover, entryError, explain, findLeftover, openPartial, stampOf } from "./partial.ts";

/** In the folder: lists what was pulled into it. */
const RECEIPT = ".tare-pull.json";
/** About 300 bytes per file, for 100 000 files and more. */
const MAX_RECEIPT_BYTES = 64 << 20;

export interface PullStoreOptions {
  /** Tells where the user's state is kept: `process.env` if absent. */
  readonly environment?: Environment | undefined;
  /** Called with the path of each file before it is put or replaced; throwing refuses it. */
  readonly check?: ((path: string) => Promise<void>) | undefined;
  /** "dry" for a pull that only plans: the folder is neither made nor locked. */
  readonly run?: "dry" | undefined;
}

/** Opens the folder for one pull and makes it if it is missing; rejects if another pull is at work. */
export async function openPullStore(directory: string, options: PullStoreOptions = {}): Promise<PullStore> {
  try {
    const isDry = options.run === "dry";
    if (!isDry) await makeFolder(directory);
    const sealer = await Sealer.open(options.environment ?? process.env);
    const lock = isDry ? undefined : await lockPullFolder(directory, sealer);
    return new DirectoryStore(directory, sealer, lock, options.check);
  } catch (error) {
    throw explain(error, directory);
  }
}

class DirectoryStore implements PullStore {
  readonly label: string;
  readonly #root: string;
  readonly #sealer: Sealer;
  readonly #lock: PullLock | undefined;
  readonly #check: PullStoreOptions["check"];
  /** Folders below the root that this pull has made, with the outermost one of each. */
  readonly #made = new Map<string, string>();
  #saving: Promise<void> = Promise.resolve();

  constructor(directory: string, sealer: Sealer, lock: PullLock | undefined, check: PullStoreOptions["check"]) {
    this.label = directory;
    this.#check = check;
    this.#root = fullPath(directory);
    this.#sealer = sealer;
    this.#lock = lock;
  }

  async look(path: string): Promise<LocalFile | undefined> {
    const facts = await this.#stat(path);
    if (facts === undefined) return undefined;
    return { byteLength: Number(facts.size), stamp: stampOf(facts) };
  }

  open(path: string): Promise<Source> {
    return openFile(this.#path(path), { label: join(this.label, path) });
  }

  async checkPlace(path: string): Promise<void> {
    await this.#check?.(this.#path(path));
  }

  async openPartial(path: string, replaced: Replaced): Promise<PartialFile> {
    const target = this.#path(path);
    const label = join(this.label, path);
    try {
      const folder = dirname(target);
      const missing = firstMissing(folder);
      if (missing !== undefined) this.#made.set(folder, missing);
      if (folder !== this.#root) await makeFolderInside(this.#root, folder, path);
      return await openPartial({ target, label, replaced }, this.#sealer);
    } catch (error) {
      throw explain(error, label);
    }
  }

  async findLeftover(path: string): Promise<"ours" | "unknown" | undefined> {
    const label = join(this.label, path);
    try {
      return await findLeftover(this.#path(path), this.#sealer);
    } catch (error) {
      throw explain(error, label, "read");
    }
  }

  async dropLeftover(path: string): Promise<void> {
    try {
      await dropLeftover(this.#path(path));
    } catch (error) {
      throw explain(error, join(this.label, path));
    }
  }

  async freeBytes(): Promise<number | undefined> {
    const facts = await statfs(this.#root).catch(() => undefined);
    // File systems that do not count report 0 of 0 blocks.
    return facts === undefined || facts.blocks === 0 ? undefined : facts.bavail * facts.bsize;
  }

  async put(path: string, bytes: Bytes, replaced: Replaced): Promise<void> {
    const found = replaced === "anything" ? undefined : await this.look(path);
    const isReplaced = replaced === "anything" || (typeof replaced === "object" && found?.stamp === replaced.stamp);
    const overwrite = isReplaced ? "replace" : "refuse";
    const sink = await directoryOutput(this.#root, "", { overwrite }).create(path);
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
      // A pipe would never end, and a real receipt is never this long.
      const facts = await lstat(path).catch(ifMissing);
      // A new receipt replaces a file or a link, after the first file was fetched.
      if (facts?.isDirectory() === true) throw entryError(path, "a folder");
      if (facts?.isFile() === false && !facts.isSymbolicLink()) throw entryError(path, "no plain file");
      if (facts === undefined || !facts.isFile() || facts.size > MAX_RECEIPT_BYTES) return undefined;
      const content = await readFile(path).catch(ifMissing);
      return content === undefined ? undefined : new Uint8Array(content);
    } catch (error) {
      throw explain(error, path, "read");
    }
  }

  /** One at a time, because files of a set are finished together. */
  keepReceipt(bytes: Bytes): Promise<void> {
    const path = join(this.#root, RECEIPT);
    const save = async (): Promise<void> => {
      try {
        const folder = directoryOutput(this.#root, "", { overwrite: "replace", readOnly: "replace" });
        await folder.replace(RECEIPT, bytes);
      } catch (error) {
        throw explain(error, path);
      }
    };
    // If one save fails, on a full disk for example, its caller gets the error and later saves still run.
    this.#saving = this.#saving.then(save, save);
    return this.#saving;
  }

  async close(): Promise<void> {
    // Of a pull that failed before it had anything to keep. Innermost folders were made last.
    for (const [folder, first] of [...this.#made].reverse()) removeEmptyFolders(folder, first);
    await this.#lock?.release();
  }

  /** The system sets the change time itself, so a file that was swapped or came from elsewhere has another one. */
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
}
