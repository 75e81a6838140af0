import { existsSync } from "node:fs";
import type { Bytes } from "../../../base/bytes.ts";
import { isTareError } from "../../../base/errors.ts";
import type { LimitOverrides } from "../../../base/limits.ts";
import type { Source } from "../../../bytes/source.ts";
import { measureStorage } from "../../../formats/aerovault/archive.ts";
import { checkStoredBlocks } from "../../../formats/aerovault/blocks/stream.ts";
import { VaultCipher } from "../../../formats/aerovault/cipher.ts";
import { checkDirectory } from "../../../formats/aerovault/extensions/directory.ts";
import type { VaultKeys } from "../../../formats/aerovault/keys.ts";
import { openVault } from "../../../formats/aerovault/open.ts";
import { checkUndamaged, closeVault, type Vault } from "../../../formats/aerovault/vault.ts";
import { type EditLayout, VaultEdit } from "../../../formats/aerovault/write/edit.ts";
import type { RoomPolicy } from "../../../formats/aerovault/write/free-space.ts";
import type { SealedVault } from "../../../formats/aerovault/write/seal/seal.ts";
import type { VaultDraft } from "../../../formats/aerovault/write/state.ts";
import { currentTime, stateOf, type VaultState } from "../../../formats/aerovault/write/state.ts";
import type { Finding } from "../../../model/finding.ts";
import type { EncryptionRule, PasswordSource } from "../../../model/format.ts";
import { secureRandom } from "../../../primitives/crypto/secrets.ts";
import type { Engine } from "../../../primitives/engine.ts";
import { removeStaleTakeovers } from "../files/lock.ts";
import { openFile } from "../files/source.ts";
import { removeVaultLitter } from "../files/stale-files.ts";
import { afterwards, isAfterChange, rewriteVaultDraft, updateVaultDraft, type VaultBase } from "./draft.ts";
import { completeHeader } from "./journal.ts";
import { checkOutsideBatch, lockVault, vaultLockPath } from "./lock.ts";
import { readVaultMark } from "./mark.ts";
import { recallOpened, rememberVault, type StateEnvironment } from "./memory.ts";
import { findVaultSidecar, realVault } from "./sidecar.ts";
import { checkVaultFile, checkWritable, hasRoomFor, isWritable } from "./writable.ts";

export interface VaultWriteContext {
  readonly engine: Engine;
  readonly limits: LimitOverrides;
  readonly password?: PasswordSource | undefined;
  /** The vault is open already: its keys are known, and its place. */
  readonly session?: VaultSession | undefined;
  /** Longest wait for another writer; 30 s if absent. */
  readonly lockTimeoutMs?: number | undefined;
  readonly encryption?: EncryptionRule | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Where to find what earlier runs remembered about vaults. */
  readonly env: StateEnvironment;
  /** "read" for programs: only the command line remembers states of vaults. */
  readonly memory?: "read" | undefined;
  /** Gets plain text: the command line puts before it what it is. */
  readonly onNote: (text: string) => void;
  /** Gets warnings from that memory; a note if absent. */
  readonly onWarning?: ((finding: Finding) => void) | undefined;
  /** Gets what a user must see even if notes are silent: something was removed; a note if absent. */
  readonly onLoss?: ((text: string) => void) | undefined;
}

/** A vault that a program keeps open, and changes from time to time. */
export interface VaultSession {
  /** Its real path: the working directory may be another one by now. */
  readonly real: string;
  /** A copy of its keys; throws once it is closed. */
  keys(): VaultKeys;
  /** Called under the lock after each change that was written, with the keys that the vault has now. */
  sealed(keys: VaultKeys): Promise<void>;
}

/** How to make a change. */
export interface VaultChange<T> {
  /** "update" costs as much as the change; "rewrite" writes every used block, and nothing else. */
  readonly layout: EditLayout;
  /** "dry" makes the change in memory and drops it. */
  readonly run?: "dry" | undefined;
  /** The vault under other keys, to encrypt it again. */
  readonly restate?: ((vault: Vault) => Promise<VaultState>) | undefined;
  /**
   * The most bytes that the change may store, if known. If the disk has less room, the change may fail halfway, and
   * then every byte of the vault must be as before.
   */
  readonly expectedBytes?: number | undefined;
  /** "renewed" if the caller makes the sidecar again after the change. */
  readonly sidecar?: "renewed" | undefined;
  /** Bytes of stored blocks that were copied, compared with their hashes, or made parity of. */
  readonly onProgress?: ((byteLength: number) => void) | undefined;
  /** Makes the change. The outcome says whether anything is to be written. */
  apply(edit: VaultEdit, vault: Vault): Promise<Applied<T>>;
}

export interface Applied<T> {
  readonly result: T;
  /** "unchanged" does not touch the vault. */
  readonly outcome?: "unchanged" | undefined;
  /** Key slots for another password. */
  readonly slots?: VaultState["slots"] | undefined;
  /** What to tell once the change is in place. */
  readonly notes?: readonly string[] | undefined;
}

/** The result of a change. */
export interface Changed<T> {
  readonly result: T;
  /** Absent if nothing was written. */
  readonly sealed?: SealedVault | undefined;
}

/**
 * Changes a vault on disk: locks, opens, changes and seals it, and cleans up in any case. First removes the files that
 * killed writers left.
 */
export async function changeVault<T>(
  path: string,
  context: VaultWriteContext,
  change: VaultChange<T>,
): Promise<Changed<T>> {
  const real = await placeOfVault(path, context);
  if (change.run === "dry") {
    await checkWritable(real, path);
    return withVault(real, path, context, async (vault) => {
      await checkBeforeWriting(vault, real, context);
      return applyDry(vault, context, change);
    });
  }
  return withVaultLock(real, path, context, async () => {
    // Before the vault is opened: the mark must not be newer than what is read.
    const mark = await readVaultMark(real, path);
    return withVault(real, path, context, (vault) =>
      applyChange(vault, { path: real, label: path, mark }, context, change),
    );
  });
}

/**
 * Runs `use` under the lock of a vault, after repairing what killed writers left. "read" is for callers that need a
 * vault without a concurrent writer and do not change it. These go on without a lock if none can be made, because we
 * may not write to the folder, but not if another process holds the lock.
 */
export async function withVaultLock<T>(
  real: string,
  label: string,
  {
    signal,
    onNote,
    lockTimeoutMs,
    session,
    onWarning,
  }: Pick<VaultWriteContext, "signal" | "onNote" | "lockTimeoutMs" | "session" | "onWarning">,
  use: () => Promise<T>,
  purpose: "change" | "read" = "change",
): Promise<T> {
  if (purpose === "change") await checkWritable(real, label);
  const onWait = (holder: string): void => onNote(`waiting for ${holder}, which is writing to the vault`);
  checkOutsideBatch(session, real);
  const lock = await lockVault(real, { signal, onWait, waitMs: lockTimeoutMs }).catch((error: unknown) => {
    // A lock that exists and may not be read belongs to another user.
    const isTaken = existsSync(vaultLockPath(real));
    if (purpose === "read" && !isTaken && isTareError(error) && error.code === "source/forbidden") return undefined;
    throw error;
  });
  if (lock === undefined) return use();
  try {
    const completion = { onNote, onWarning, keys: session && (() => session.keys()) };
    if (purpose === "change" || (await isWritable(real))) await completeHeader(real, completion);
    await removeVaultLitter(real);
    await removeStaleTakeovers(lock.path);
    return await use();
  } finally {
    await lock.release();
  }
}

/** Where a vault is, links followed. */
export async function placeOfVault(path: string, { session }: Pick<VaultWriteContext, "session">): Promise<string> {
  const real = session === undefined ? await realVault(path) : session.real;
  await checkVaultFile(real, path);
  return real;
}

/** Opens a vault to write to it or beside it: with the password, or with the keys of one that is open already. */
export function openToWrite(source: Source, context: VaultWriteContext): Promise<Vault> {
  const { engine, limits, password, encryption, signal, session } = context;
  const keys = session === undefined ? undefined : (): VaultKeys => session.keys();
  return openVault(source, { engine, limits, password, encryption, signal }, { keys });
}

async function withVault<T>(
  real: string,
  label: string,
  context: VaultWriteContext,
  use: (vault: Vault) => Promise<T>,
): Promise<T> {
  const source = await openFile(real, { label });
  let vault: Vault | undefined;
  try {
    vault = await openToWrite(source, context);
    await recallForWriting(vault, label, context);
    return await use(vault);
  } finally {
    if (vault === undefined) await source.close();
    else await closeVault(vault);
  }
}

/** Compares a vault with what was seen before of it, and at its place. */
export async function recallForWriting(vault: Vault, label: string, context: VaultWriteContext): Promise<void> {
  const onWarning = context.onWarning ?? (({ message }: Finding) => (context.onLoss ?? context.onNote)(message));
  const older = await recallOpened(vault, { outer: label, inner: [] }, { ...context, onWarning });
  if (older !== undefined) onWarning(older);
}

async function applyChange<T>(
  vault: Vault,
  base: VaultBase,
  context: VaultWriteContext,
  change: VaultChange<T>,
): Promise<Changed<T>> {
  const { path, label, mark } = base;
  const beside = await checkBeforeWriting(vault, path, context);
  const room = beside === "none" && (await hasRoomFor(path, change.expectedBytes ?? 0)) ? "gaps" : "tail";
  const draft =
    change.layout === "update"
      ? await updateVaultDraft(base)
      : await rewriteVaultDraft(base, mark.byteLength - unusedRoom(vault));
  let edit: VaultEdit | undefined;
  try {
    const begun = await beginEdit(vault, draft, context, { ...change, room });
    const { state, cipher } = begun;
    edit = begun.edit;
    try {
      const { result, outcome, slots, notes = [] } = await change.apply(edit, vault);
      if (outcome === "unchanged") {
        await draft.abort(edit.end);
        return { result };
      }
      await heedSignal(context.signal);
      const sealed = await edit.seal(slots).catch(async (error: unknown) => {
        // Programs that keep the vault open see the change, and its new keys.
        if (isAfterChange(error)) await context.session?.sealed(state.keys).catch(() => undefined);
        throw error;
      });
      await afterwards(label, async () => {
        // First of all: until then a vault that is kept open has the keys of before.
        await context.session?.sealed(state.keys);
        if (context.memory !== "read") {
          await rememberVault({ ...sealed, keys: state.keys }, context.engine, context.env);
        }
        if (mark.links > 1n) context.onNote(`"${label}" had other names (hard links); they keep what they had`);
        if (beside === "vault" && change.sidecar !== "renewed") {
          context.onNote(`the sidecar of "${label}" is of the state before: tare vault parity VAULT export renews it`);
        }
        for (const note of notes) context.onNote(note);
      });
      return { result, sealed };
    } finally {
      if (cipher !== vault.cipher) cipher.wipe();
    }
  } catch (error) {
    await draft.abort(edit?.end);
    throw error;
  }
}

/** What a vault that is written again leaves out: blocks that no entry uses, and bytes that hold nothing. */
export function unusedRoom(vault: Vault): number {
  const { unusedBytes, gapBytes } = measureStorage(vault);
  return unusedBytes + gapBytes;
}

/**
 * The last moment to call a change off: a commit that has begun is finished. Ctrl-C in a pipeline also ends the input, and
 * the event loop may report that end before it reports the signal; one turn later it has reported both.
 */
async function heedSignal(signal: AbortSignal | undefined): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
  signal?.throwIfAborted();
}

/**
 * A change makes the sidecar of the vault outdated. If only the sidecar could heal a damaged block, the change is
 * refused: afterwards nothing could heal it. Returns what is beside the vault: nothing, its sidecar, or a sidecar that
 * is not one of a vault.
 */
async function checkBeforeWriting(
  vault: Vault,
  real: string,
  { engine, signal }: VaultWriteContext,
): Promise<"none" | "vault" | "other"> {
  const { source, manifest } = vault;
  checkUndamaged(vault, `write to "${source.label}"`);
  await checkDirectory(vault, `write to "${source.label}"`);
  const { sidecar, problem, close } = await findVaultSidecar(real, engine);
  await close();
  if (sidecar === undefined) return problem === undefined ? "none" : "other";
  const action = `write to "${source.label}", whose sidecar could not heal it afterwards`;
  const read = (offset: number, byteLength: number): Promise<Bytes> => source.read(offset, byteLength);
  await checkStoredBlocks(manifest.chunks.values(), read, { engine, label: source.label, action, signal });
  return "vault";
}

interface Begun {
  readonly edit: VaultEdit;
  readonly state: VaultState;
  readonly cipher: VaultCipher;
}

async function beginEdit<T>(
  vault: Vault,
  draft: VaultDraft,
  { engine, signal }: VaultWriteContext,
  { layout, restate, room, onProgress }: VaultChange<T> & { readonly room?: RoomPolicy },
): Promise<Begun> {
  const state = restate === undefined ? stateOf(vault) : await restate(vault);
  const cipher = restate === undefined ? vault.cipher : await VaultCipher.create(engine, state.keys);
  const host = { engine, random: secureRandom, now: currentTime, signal, onProgress };
  return { edit: new VaultEdit({ state, draft, cipher, host, layout, room }), state, cipher };
}

/** Everything except writing. */
async function applyDry<T>(vault: Vault, context: VaultWriteContext, change: VaultChange<T>): Promise<Changed<T>> {
  const nowhere: VaultDraft = {
    label: vault.source.label,
    write: async () => undefined,
    read: (offset, byteLength) => vault.source.read(offset, byteLength),
    commit: async () => undefined,
    abort: async () => undefined,
  };
  const { edit } = await beginEdit(vault, nowhere, context, { ...change, restate: undefined });
  const { result, notes = [] } = await change.apply(edit, vault);
  for (const note of notes) context.onNote(note);
  return { result };
}
