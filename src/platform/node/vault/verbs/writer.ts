import type { OpenedInput, OpenRequest } from "../../../../api/inputs.ts";
import type {
  AddOptions,
  ChangeOptions,
  EmbedParityOptions,
  ExportParityOptions,
  NewEntry,
  RemoveOptions,
  StripParityOptions,
} from "../../../../api/vault/options.ts";
import type {
  VaultAddResult,
  VaultCompactResult,
  VaultCopyResult,
  VaultMkdirResult,
  VaultMoveResult,
  VaultParityResult,
  VaultPasswordResult,
  VaultRemoveResult,
} from "../../../../api/vault/results.ts";
import type { EntryWriter, OnChanged, VaultPlace, VaultWriter } from "../../../../api/vault/writer.ts";
import type { Bytes } from "../../../../base/bytes.ts";
import { isTareError, SourceError, UsageError } from "../../../../base/errors.ts";
import type { LimitOverrides } from "../../../../base/limits.ts";
import { untilAborted } from "../../../../bytes/abort.ts";
import { VaultArchive, VaultEntry } from "../../../../formats/aerovault/archive.ts";
import { copyKeys, type VaultKeys, wipeKeys } from "../../../../formats/aerovault/keys.ts";
import { openVault } from "../../../../formats/aerovault/open.ts";
import type { Vault } from "../../../../formats/aerovault/vault.ts";
import type { VaultEdit } from "../../../../formats/aerovault/write/edit.ts";
import type { Archive, Entry } from "../../../../model/archive.ts";
import type { PasswordSource } from "../../../../model/format.ts";
import { parityPercent } from "../../../../model/parity/avec.ts";
import { type Password, passwordSource } from "../../../../model/password.ts";
import { checkNewPassword } from "../../../../operations/vault/create.ts";
import { inTurn } from "../../../../operations/vault/sealing.ts";
import type { Engine } from "../../../../primitives/engine.ts";
import type { InputFile } from "../../files/output-place.ts";
import { openFile } from "../../files/source.ts";
import { pathOf, withPaths } from "../../paths.ts";
import { changeVault, type VaultSession, type VaultWriteContext } from "../change.ts";
import { insideBatch } from "../lock.ts";
import { describeVaultSidecar, realVault } from "../sidecar.ts";
import { addToVaultFile } from "./add.ts";
import { embedVaultParity, exportSidecar, stripVaultParity } from "./parity.ts";
import { changeVaultPassword } from "./password.ts";
import { type ChangeTarget, targetOf } from "./target.ts";
import { copyVaultEntry, makeVaultDirectories, moveVaultEntry, removeVaultEntries } from "./tree.ts";
import { compactVault } from "./upkeep.ts";

/** A vault file that a program has opened. */
export interface OpenVaultFile {
  /** As the user named it. */
  readonly path: string;
  readonly real: string;
  /** Its keys now; they are copied. */
  readonly keys: VaultKeys;
  /** What changing it needs, for one call. */
  contextFor(options: ChangeOptions): VaultWriteContext;
}

/** Changes a vault file with the keys that it was opened with. Every change opens the file again, under its lock. */
export function vaultFileWriter(file: OpenVaultFile, onChanged: OnChanged): VaultWriter {
  const session = new Session(file, onChanged);
  const target = (options: ChangeOptions): ChangeTarget =>
    targetOf(file.path, { ...file.contextFor(options), session }, options);
  const inputs: readonly InputFile[] = [{ path: file.real, kind: "vault" }];
  return {
    ...entryWriter(target),

    async changePassword(newPassword, options): Promise<VaultPasswordResult> {
      const fresh = await secretOf(newPassword, file.path, options.signal);
      try {
        checkNewPassword(fresh, file.path);
        return await changeVaultPassword(target(options), async () => fresh, options);
      } finally {
        fresh.fill(0);
      }
    },

    compact: (options: ChangeOptions): Promise<VaultCompactResult> => compactVault(target(options)),

    exportParity(options: ExportParityOptions): Promise<VaultParityResult> {
      const { output, force } = withPaths(options, "output");
      const overwrite = force === true ? "replace" : "refuse";
      return exportSidecar(target(options), { output, percent: percentOf(options), overwrite, inputs });
    },

    embedParity: (options: EmbedParityOptions): Promise<VaultParityResult> =>
      embedVaultParity(target(options), percentOf(options)),

    stripParity: (options: StripParityOptions): Promise<VaultParityResult> =>
      stripVaultParity(target(options), options.force === true ? "anyway" : undefined),

    batch: (work, options) => runBatch(target(options), work),

    isSame,

    close: () => session.close(),
  };
}

function entryWriter(target: (options: ChangeOptions) => ChangeTarget): EntryWriter {
  return {
    add: (what: readonly (string | NewEntry)[], options: AddOptions): Promise<VaultAddResult> =>
      addToVaultFile(target(options), what.map(pathIn), options),
    mkdir: (paths: readonly string[], options: ChangeOptions): Promise<VaultMkdirResult> =>
      makeVaultDirectories(target(options), paths),
    remove: (paths: readonly string[], options: RemoveOptions): Promise<VaultRemoveResult> =>
      removeVaultEntries(target(options), paths, options),
    move: (from: string, to: string, options: ChangeOptions): Promise<VaultMoveResult> =>
      moveVaultEntry(target(options), from, to),
    copy: (from: string, to: string, options: ChangeOptions): Promise<VaultCopyResult> =>
      copyVaultEntry(target(options), from, to),
  };
}

function pathIn(what: string | NewEntry): string | NewEntry {
  return typeof what === "string" ? pathOf(what) : what;
}

/** The keys of an opened vault, and its newest state. */
class Session implements VaultSession {
  readonly real: string;
  readonly #file: OpenVaultFile;
  readonly #onChanged: OnChanged;
  #keys: VaultKeys | undefined;

  constructor(file: OpenVaultFile, onChanged: OnChanged) {
    this.real = file.real;
    this.#file = file;
    this.#onChanged = onChanged;
    this.#keys = copyKeys(file.keys);
  }

  keys(): VaultKeys {
    if (this.#keys !== undefined) return copyKeys(this.#keys);
    const { path } = this.#file;
    throw new UsageError("usage/vault.closed", `Cannot change the vault "${path}": it is closed`, { source: path });
  }

  /** Opens the vault as it is now. Under the lock, so that it is the state that the change made. */
  async sealed(keys: VaultKeys): Promise<void> {
    if (this.#keys === undefined) return; // closed meanwhile: nothing needs the new state
    const { path, real } = this.#file;
    wipeKeys(this.#keys);
    this.#keys = copyKeys(keys);
    try {
      this.#onChanged(await openState(this.#file, real, () => copyKeys(keys)));
    } catch (error) {
      if (!isTareError(error)) throw error;
      const message = `The change of "${path}" is in place, but what follows it failed: ${error.message}`;
      const hint = "Do not repeat the change; open the vault again";
      throw new SourceError("source/vault.after-change", message, { source: path }, { hint, cause: error });
    }
  }

  close(): void {
    if (this.#keys !== undefined) wipeKeys(this.#keys);
    this.#keys = undefined;
  }
}

/** Opens a vault file by its keys. */
export async function openState(
  { path, contextFor }: Pick<OpenVaultFile, "path" | "contextFor">,
  real: string,
  keys: () => VaultKeys,
): Promise<VaultArchive> {
  const { engine, limits }: { engine: Engine; limits: LimitOverrides } = contextFor({});
  const source = await openFile(real, { label: path });
  try {
    return new VaultArchive(await openVault(source, { engine, limits }, { keys }));
  } catch (error) {
    await source.close();
    throw error;
  }
}

/** Ids of chunks are those of their contents, as long as the keys are the same. */
function isSame(before: Entry, after: Entry): boolean {
  if (!(before instanceof VaultEntry && after instanceof VaultEntry)) return false;
  const [a, b] = [before.record, after.record];
  const hasSameChunks = a.chunks.length === b.chunks.length && a.chunks.every((id, i) => id === b.chunks[i]);
  return a.isDir === b.isDir && a.size === b.size && (a.packOffset ?? 0) === (b.packOffset ?? 0) && hasSameChunks;
}

function percentOf({ parity }: EmbedParityOptions): number | undefined {
  return parity === undefined ? undefined : parityPercent(parity);
}

async function secretOf(password: Password, label: string, signal: AbortSignal | undefined): Promise<Bytes> {
  const ask: PasswordSource = passwordSource(password, signal) ?? (async () => undefined);
  const fresh = await ask(`${label} (new)`);
  if (fresh !== undefined) return fresh;
  throw new UsageError("usage/password.missing", "Cannot change the password without a new one", { source: label });
}

/** All changes of `work` as one: the lock is held from its beginning to its end. */
async function runBatch<T>(target: ChangeTarget, work: (writer: EntryWriter) => Promise<T>): Promise<T> {
  const { vault, context, dryRun } = target;
  const { signal } = context;
  const { result } = await changeVault<{ readonly value: T }>(vault, context, {
    layout: "update",
    run: dryRun ? "dry" : undefined,
    async apply(edit, opened) {
      const batch = new Batch(target, edit, opened);
      try {
        const writer = batch.writer();
        const value = await untilAborted(
          insideBatch(context.session ?? batch, () => work(writer)),
          signal,
        );
        await batch.drain();
        return { result: { value }, outcome: batch.isChanged ? undefined : "unchanged" };
      } finally {
        await batch.end();
      }
    },
  });
  return result.value;
}

/** The changes of a batch, on one edit, one after the other. */
class Batch {
  readonly #whole: ChangeTarget;
  readonly #edit: VaultEdit;
  readonly #vault: Vault;
  readonly #inTurn = inTurn(async (change: () => Promise<unknown>) => {
    this.#check();
    return change();
  });
  #isOver = false;
  #isChanged = false;

  constructor(whole: ChangeTarget, edit: VaultEdit, vault: Vault) {
    this.#whole = whole;
    this.#edit = edit;
    this.#vault = vault;
  }

  get isChanged(): boolean {
    return this.#isChanged;
  }

  /** Waits for changes that the work began and did not wait for. */
  async drain(): Promise<void> {
    await this.#inTurn(async () => undefined).catch(() => undefined); // of a batch that is over
  }

  /** Nothing can be changed from now on; waits for what runs still. */
  async end(): Promise<void> {
    this.#isOver = true;
    await this.drain();
  }

  /** Each change begins when those that were called before it have ended: reading what is added may take any time. */
  writer(): EntryWriter {
    const writer = entryWriter((options) => this.#target(options));
    const next = <T>(change: () => Promise<T>): Promise<T> => this.#inTurn(change) as Promise<T>;
    return {
      add: (what, options) => next(() => writer.add(what, options)),
      mkdir: (paths, options) => next(() => writer.mkdir(paths, options)),
      remove: (paths, options) => next(() => writer.remove(paths, options)),
      move: (from, to, options) => next(() => writer.move(from, to, options)),
      copy: (from, to, options) => next(() => writer.copy(from, to, options)),
    };
  }

  #target(options: ChangeOptions): ChangeTarget {
    const { vault, source, context } = this.#whole;
    const dryRun = this.#whole.dryRun || options.dryRun === true;
    const onNote = options.onNote ?? context.onNote;
    const signal = anySignal(context.signal, options.signal);
    return {
      vault,
      source,
      context: { ...context, signal, onNote },
      dryRun,
      onProgress: options.onProgress ?? this.#whole.onProgress,
      commit: async (change) => {
        this.#check();
        signal?.throwIfAborted();
        const savepoint = this.#edit.savepoint();
        try {
          const { result, outcome, notes = [] } = await change.apply(this.#edit, this.#vault);
          for (const note of notes) onNote(note);
          if (options.dryRun === true) savepoint.restore();
          else {
            savepoint.keep();
            if (outcome !== "unchanged") this.#isChanged = true;
          }
          return { result, byteLength: null };
        } catch (error) {
          // The work may go on without this change: nothing of it must stay.
          savepoint.restore();
          throw error;
        }
      },
    };
  }

  #check(): void {
    if (!this.#isOver) return;
    const { vault } = this.#whole;
    const message = `Cannot change "${vault}" in a batch that is over`;
    const hint = "Wait for every change before the work of the batch ends";
    throw new UsageError("usage/vault.batch", message, { source: vault }, { hint });
  }
}

function anySignal(a: AbortSignal | undefined, b: AbortSignal | undefined): AbortSignal | undefined {
  return a === undefined || b === undefined ? (a ?? b) : AbortSignal.any([a, b]);
}

/** What is known of a vault that was opened by its path: files beside it, and how to change it. */
export async function vaultFilePlace(
  path: string,
  { container }: OpenedInput,
  { engine }: OpenRequest,
  contextOf: (options: ChangeOptions) => VaultWriteContext,
): Promise<VaultPlace> {
  const real = await realVault(path);
  const facts = (archive: Archive): Promise<Archive["facts"]> => vaultFileFacts(archive, path, engine);
  if (!(container instanceof VaultArchive)) return { facts };
  const { keys } = container.vault;
  // A signal that ended the opening says nothing about changes.
  const contextFor = ({ signal, onNote, ...rest }: ChangeOptions): VaultWriteContext =>
    contextOf({ ...rest, signal, ...(onNote === undefined ? {} : { onNote }) });
  return { facts, writer: (onChanged) => vaultFileWriter({ path, real, keys, contextFor }, onChanged) };
}

/** The facts of a vault itself and, after its parity, of the sidecar beside it. */
export async function vaultFileFacts(archive: Archive, path: string, engine: Engine): Promise<Archive["facts"]> {
  const sidecar = await describeVaultSidecar(archive, path, engine);
  if (sidecar === undefined) return archive.facts;
  const after = archive.facts.findIndex(([name]) => name === "parity") + 1;
  return [...archive.facts.slice(0, after), ["sidecar", sidecar], ...archive.facts.slice(after)];
}
