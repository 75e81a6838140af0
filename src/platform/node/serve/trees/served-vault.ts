import { stat } from "node:fs/promises";
import { basename } from "node:path";
import { HeldArchive } from "../../../../api/vault/held.ts";
import { requireArchive } from "../../../../api/vault/reading.ts";
import { isTareError, SourceError, type TareError } from "../../../../base/errors.ts";
import { VaultArchive } from "../../../../formats/aerovault/archive.ts";
import { copyKeys, type VaultKeys, wipeKeys } from "../../../../formats/aerovault/keys.ts";
import { openVault } from "../../../../formats/aerovault/open.ts";
import type { Archive } from "../../../../model/archive.ts";
import type { Finding } from "../../../../model/finding.ts";
import { identityOf, openFile } from "../../files/source.ts";
import { namedFileError } from "../../folders.ts";
import type { Opening } from "../../host.ts";
import { completedSource, localFileOf, type OpenedTarget, openTarget } from "../../targets.ts";
import { holdsMark, readVaultMark, type VaultMark } from "../../vault/mark.ts";
import { isSettled } from "../preconditions.ts";
import { VaultContents, VaultIndex } from "./vault-entries.ts";

/** How a vault is opened again and again while it is served. */
export interface VaultOpening {
  /** As the user named it. */
  readonly target: string;
  readonly opening: Opening;
  /** Gets what is wrong with a vault that was changed and cannot be opened any more. */
  readonly onFailure: (error: TareError) => void;
}

/** One state of a vault, and what was made of it to serve it. */
export interface VaultState {
  readonly archive: Archive;
  readonly index: Promise<VaultIndex>;
  readonly contents: VaultContents;
  /** When the file of the vault was changed, in milliseconds since 1970: the time of what has none of its own. */
  readonly modified: number;
}

export interface StateLease {
  readonly state: VaultState;
  release(): void;
}

/** What the file of the vault looked like when it was looked at. */
interface Stamp {
  /** Changes with every change of the file that its time stamp shows. */
  readonly identity: string;
  /** The later one of both times that the system keeps. */
  readonly changedNs: bigint;
  readonly modified: number;
}

/** States that replies may still read while the vault has a newer one; each holds a manifest. */
const MAX_OLDER_STATES = 8;
/** How long a vault that could not be opened is not tried again, unless it changes. */
const RETRY_MS = 1000;

/** A vault that may be changed or replaced at any moment. Each request reads the state of when it came, to its end. */
export class ServedVault {
  /** The file's own name. */
  readonly name: string;
  readonly #how: VaultOpening;
  readonly #file: string;
  readonly #first: OpenedTarget;
  readonly #held: HeldArchive;
  readonly #states = new WeakMap<Archive, VaultState>();
  readonly #readers = new Map<Archive, number>();
  #mark: VaultMark;
  /** The file as it was when the state was seen to be current; undefined if a change might not show in it. */
  #seen: string | undefined;
  #keys: VaultKeys | undefined;
  #looking: Promise<void> | undefined;
  #closing: Promise<void> | undefined;
  /** A look that begins when the present one has ended. */
  #next: Promise<void> | undefined;
  #failure: { readonly identity: string | undefined; readonly at: number; readonly error: TareError } | undefined;

  private constructor(how: VaultOpening, file: string, first: OpenedState) {
    this.#how = how;
    this.#file = file;
    this.name = basename(file);
    this.#mark = first.mark;
    this.#first = first.opened;
    this.#held = new HeldArchive({ ...first.opened, container: first.archive }, () => false);
    this.#take(first);
  }

  static async open(how: VaultOpening): Promise<ServedVault> {
    const file = (await localFileOf(how.target)) ?? how.target;
    return new ServedVault(how, file, await openState(how, file));
  }

  /** What was wrong with the vault when it was opened, if that is no error. */
  get warnings(): readonly Finding[] {
    return this.#held.last.warnings;
  }

  /** Holds the state that is on the disk now. Rejects with a TareError if it cannot be opened. */
  async lease(): Promise<StateLease> {
    await this.#refresh();
    const { archive, release } = this.#held.lease();
    this.#readers.set(archive, (this.#readers.get(archive) ?? 0) + 1);
    return { state: this.#stateOf(archive), release: () => this.#release(archive, release) };
  }

  close(): Promise<void> {
    this.#closing ??= this.#closeAll();
    return this.#closing;
  }

  async #closeAll(): Promise<void> {
    for (let last = this.#looking; last !== undefined; last = this.#looking) await last.catch(() => undefined);
    await this.#held.close();
    if (this.#keys !== undefined) wipeKeys(this.#keys);
    this.#keys = undefined;
    await this.#how.opening.close();
  }

  #release(archive: Archive, release: () => void): void {
    const left = (this.#readers.get(archive) ?? 1) - 1;
    if (left === 0) this.#readers.delete(archive);
    else this.#readers.set(archive, left);
    release();
  }

  /** Looks at the disk once for all requests that wait. A look that had begun before a request says nothing to it. */
  #refresh(): Promise<void> {
    if (this.#looking === undefined) {
      this.#looking = this.#look().finally(() => {
        this.#looking = undefined;
      });
      return this.#looking;
    }
    this.#next ??= this.#looking
      .catch(() => undefined)
      .then(() => {
        this.#next = undefined;
        return this.#refresh();
      });
    return this.#next;
  }

  /** Opens the vault again if it is another one than the one that is held. */
  async #look(): Promise<void> {
    const stamp = await stampOf(this.#file).catch(() => undefined); // opening reports it
    if (stamp !== undefined && stamp.identity === this.#seen) return;
    // A write in place changes the file long before it has a new header.
    if (stamp !== undefined && (await holdsMark(this.#file, this.#mark))) {
      this.#saw(stamp);
      return;
    }
    const before = this.#failure;
    if (before !== undefined && before.identity === stamp?.identity && Date.now() - before.at < RETRY_MS) {
      throw before.error;
    }
    try {
      this.#checkReaders();
      const next = await openState(this.#how, this.#file, { opened: this.#first, keys: this.#keys });
      this.#held.replace(next.archive);
      this.#take(next);
    } catch (error) {
      if (!isTareError(error)) throw error;
      this.#failure = { identity: stamp?.identity, at: Date.now(), error };
      if (before?.error.message !== error.message) this.#how.onFailure(error);
      throw error;
    }
  }

  #take({ archive, mark, stamp }: OpenedState): void {
    this.#mark = mark;
    this.#saw(stamp);
    const keys = archive instanceof VaultArchive ? copyKeys(archive.vault.keys) : undefined;
    if (this.#keys !== undefined) wipeKeys(this.#keys);
    this.#keys = keys;
    const index = VaultIndex.of(archive);
    index.catch(() => undefined); // each request reports it
    this.#states.set(archive, {
      archive,
      index,
      contents: new VaultContents(stamp.identity),
      modified: stamp.modified,
    });
  }

  #saw(stamp: Stamp): void {
    this.#failure = undefined;
    this.#seen = isSettled(stamp.changedNs, Date.now()) ? stamp.identity : undefined;
  }

  #stateOf(archive: Archive): VaultState {
    const state = this.#states.get(archive);
    if (state === undefined) throw new Error("a state of the vault was not prepared");
    return state;
  }

  #checkReaders(): void {
    if (this.#readers.size <= MAX_OLDER_STATES) return;
    const message = `Cannot open "${this.#file}" again: ${this.#readers.size} states of it are still being read`;
    throw new SourceError("source/serve.states", message, { source: this.#file });
  }
}

async function stampOf(path: string): Promise<Stamp> {
  const stats = await stat(path, { bigint: true });
  const { mtimeNs, ctimeNs } = stats;
  return {
    identity: `${identityOf(stats)}:${ctimeNs}`,
    changedNs: mtimeNs > ctimeNs ? mtimeNs : ctimeNs,
    modified: Number(stats.mtimeMs),
  };
}

interface OpenedState {
  readonly opened: OpenedTarget;
  readonly archive: Archive;
  readonly mark: VaultMark;
  readonly stamp: Stamp;
}

/** What is known of a vault from an earlier state of it. */
interface Earlier {
  readonly opened: OpenedTarget;
  readonly keys: VaultKeys | undefined;
}

/** Opens the vault, by the keys of an earlier state if they fit. Stamp and mark are not newer than what is read. */
async function openState(how: VaultOpening, file: string, earlier?: Earlier): Promise<OpenedState> {
  const { target, opening } = how;
  const stamp = await stampOf(file).catch((error: unknown) => {
    throw namedFileError(error, `Cannot open "${target}"`, { source: target });
  });
  const mark = await readVaultMark(file, target);
  const known = file === target && earlier !== undefined ? await openByKeys(how, earlier) : undefined;
  const opened = known ?? (await openTarget(target, opening.options));
  try {
    return { opened, archive: requireArchive(opened), mark, stamp };
  } catch (error) {
    await opened.close();
    throw error;
  }
}

/** Without deriving keys from a password again; undefined if that is needed, or if something else is wrong. */
async function openByKeys({ target, opening }: VaultOpening, earlier: Earlier): Promise<OpenedTarget | undefined> {
  const { keys } = earlier;
  if (keys === undefined) return undefined;
  const { engine, limits = {}, signal, onOpened } = opening.options;
  const source = await completedSource(target, await openFile(target, { signal }), opening.options);
  let close = (): Promise<void> => source.close();
  try {
    const vault = await openVault(source, { engine, limits, signal }, { keys: () => copyKeys(keys) });
    const container = new VaultArchive(vault);
    close = () => container.close();
    await onOpened?.(container, { outer: target, inner: [] });
    return { ...earlier.opened, container, close, distrust: close };
  } catch (error) {
    await close();
    if (isTareError(error)) return undefined;
    throw error;
  }
}
