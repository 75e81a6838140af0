import { existsSync } from "node:fs";
import type { Bytes } from "../../base/bytes.ts";
import { isTareError } from "../../base/errors.ts";
import type { LimitOverrides } from "../../base/limits.ts";
import { checkStoredBlocks } from "../../formats/aerovault/block-stream.ts";
import { checkDirectory } from "../../formats/aerovault/extension-directory.ts";
import { VaultCipher } from "../../formats/aerovault/framing.ts";
import { openVault } from "../../formats/aerovault/open.ts";
import { checkUndamaged, closeVault, type Vault } from "../../formats/aerovault/vault.ts";
import type { VaultDraft } from "../../formats/aerovault/write/draft.ts";
import type { SealedVault } from "../../formats/aerovault/write/seal.ts";
import type { RoomPolicy } from "../../formats/aerovault/write/space.ts";
import { type EditLayout, VaultEdit } from "../../formats/aerovault/write/vault-edit.ts";
import { currentTime, stateOf, type VaultState } from "../../formats/aerovault/write/vault-state.ts";
import type { Finding } from "../../model/finding.ts";
import type { EncryptionRule, PasswordSource } from "../../model/format.ts";
import { secureRandom } from "../../primitives/crypto/secrets.ts";
import type { Engine } from "../../primitives/engine.ts";
import { removeStaleTakeovers } from "./file-lock.ts";
import { openFile } from "./file-source.ts";
import { checkReplaceable, hasRoomFor, rewriteVaultDraft, updateVaultDraft, type VaultBase } from "./vault-draft.ts";
import { completeHeader } from "./vault-journal.ts";
import { removeVaultLitter } from "./vault-litter.ts";
import { lockVault, vaultLockPath } from "./vault-lock.ts";
import { readVaultMark } from "./vault-mark.ts";
import { recallOpened, rememberVault, type StateEnvironment } from "./vault-memory.ts";
import { findVaultSidecar, realVault } from "./vault-sidecar.ts";

export interface VaultWriteContext {
  readonly engine: Engine;
  readonly limits: LimitOverrides;
  readonly password?: PasswordSource | undefined;
  readonly encryption?: EncryptionRule | undefined;
  readonly signal?: AbortSignal | undefined;
  /** For what is remembered of vaults between runs. */
  readonly env: StateEnvironment;
  readonly onNote: (text: string) => void;
  /** What memory tells of the vault; a note where absent. */
  readonly onWarning?: ((finding: Finding) => void) | undefined;
}

/** How a change is made, and with what. */
export interface VaultChange<T> {
  /** "update" costs what the change does; "rewrite" writes every block that is used, and nothing else. */
  readonly layout: EditLayout;
  /** "dry" makes the change in memory and forgets it. */
  readonly run?: "dry" | undefined;
  /** The vault under other keys, for one that is encrypted anew. */
  readonly restate?: ((vault: Vault) => Promise<VaultState>) | undefined;
  /**
   * Bytes that the change may store at most, where that is known. Where the disk has less room the change may fail halfway,
   * and then every byte of the vault is to be as it was.
   */
  readonly expectedBytes?: number | undefined;
  /** "renewed" where the caller makes the sidecar anew after the change. */
  readonly sidecar?: "renewed" | undefined;
  /** Undefined where there is nothing to write after all. */
  apply(edit: VaultEdit, vault: Vault): Promise<Applied<T>>;
}

export interface Applied<T> {
  readonly result: T;
  /** "unchanged" leaves the vault alone. */
  readonly outcome?: "unchanged" | undefined;
  /** Key slots for another password. */
  readonly slots?: VaultState["slots"] | undefined;
}

/** What a change did. */
export interface Changed<T> {
  readonly result: T;
  /** Absent where nothing was written. */
  readonly sealed?: SealedVault | undefined;
}

/**
 * Changes a vault on disk: lock, open, change, seal, with everything put away again whatever happens. Left-overs of writers
 * that were killed are removed first.
 */
export async function changeVault<T>(
  path: string,
  context: VaultWriteContext,
  change: VaultChange<T>,
): Promise<Changed<T>> {
  const real = await realVault(path);
  if (change.run === "dry") {
    return withVault(real, path, context, async (vault) => {
      await checkBeforeWriting(vault, real, context);
      return applyDry(vault, context, change);
    });
  }
  return withVaultLock(real, path, context, async () => {
    // Before the vault is opened: what is written to must be no newer than what was read.
    const mark = await readVaultMark(real, path);
    return withVault(real, path, context, (vault) =>
      applyChange(vault, { path: real, label: path, mark }, context, change),
    );
  });
}

/**
 * Runs what writes to a vault under its lock, after whatever writers that were killed left is put right. "read" is for what
 * needs a vault that nobody writes to and leaves it as it is: that goes on without a lock where none can be put, in a folder
 * that is not ours to write to, but not where somebody else has it.
 */
export async function withVaultLock<T>(
  real: string,
  label: string,
  { signal, onNote }: Pick<VaultWriteContext, "signal" | "onNote">,
  use: () => Promise<T>,
  purpose: "change" | "read" = "change",
): Promise<T> {
  if (purpose === "change") await checkReplaceable(real, label);
  const onWait = (holder: string): void => onNote(`waiting for ${holder}, which is writing to the vault`);
  const lock = await lockVault(real, { signal, onWait }).catch((error: unknown) => {
    // One that is there and may not be read is somebody's.
    const isTaken = existsSync(vaultLockPath(real));
    if (purpose === "read" && !isTaken && isTareError(error) && error.code === "source/forbidden") return undefined;
    throw error;
  });
  if (lock === undefined) return use();
  try {
    await completeHeader(real, onNote);
    await removeVaultLitter(real);
    await removeStaleTakeovers(lock.path);
    return await use();
  } finally {
    await lock.release();
  }
}

async function withVault<T>(
  real: string,
  label: string,
  context: VaultWriteContext,
  use: (vault: Vault) => Promise<T>,
): Promise<T> {
  const { engine, limits, password, encryption, signal } = context;
  const source = await openFile(real, { label });
  let vault: Vault | undefined;
  try {
    vault = await openVault(source, { engine, limits, password, encryption, signal });
    await recallForWriting(vault, label, context);
    return await use(vault);
  } finally {
    if (vault === undefined) await source.close();
    else await closeVault(vault);
  }
}

/** Compares a vault with what was seen of it, and of the place that it was named by. */
export async function recallForWriting(vault: Vault, label: string, context: VaultWriteContext): Promise<void> {
  const onWarning = context.onWarning ?? (({ message }: Finding) => context.onNote(`warning: ${message}`));
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
    change.layout === "update" ? await updateVaultDraft(base) : await rewriteVaultDraft(base, mark.byteLength);
  let edit: VaultEdit | undefined;
  try {
    const begun = await beginEdit(vault, draft, context, { ...change, room });
    const { state, cipher } = begun;
    edit = begun.edit;
    try {
      const { result, outcome, slots } = await change.apply(edit, vault);
      if (outcome === "unchanged") {
        await draft.abort(edit.end);
        return { result };
      }
      const sealed = await edit.seal(slots);
      await rememberVault({ ...sealed, keys: state.keys }, context.engine, context.env);
      if (mark.links > 1n) context.onNote(`note: "${label}" had other names (hard links); they keep what they had`);
      if (beside === "vault" && change.sidecar !== "renewed") {
        context.onNote(
          `note: the sidecar of "${label}" is of the state before: tare vault parity VAULT export renews it`,
        );
      }
      return { result, sealed };
    } finally {
      if (cipher !== vault.cipher) cipher.wipe();
    }
  } catch (error) {
    await draft.abort(edit?.end);
    throw error;
  }
}

/**
 * A change leaves the sidecar of the vault behind. Where that is all that could heal a damaged block, the change is refused:
 * afterwards nothing could. What stands beside the vault: nothing, its sidecar, or a sidecar that is not one of a vault.
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
  { layout, restate, room }: VaultChange<T> & { readonly room?: RoomPolicy },
): Promise<Begun> {
  const state = restate === undefined ? stateOf(vault) : await restate(vault);
  const cipher = restate === undefined ? vault.cipher : await VaultCipher.create(engine, state.keys);
  const host = { engine, random: secureRandom, now: currentTime, signal };
  return { edit: new VaultEdit({ state, draft, cipher, host, layout, room }), state, cipher };
}

/** Everything but writing. */
async function applyDry<T>(vault: Vault, context: VaultWriteContext, change: VaultChange<T>): Promise<Changed<T>> {
  const nowhere: VaultDraft = {
    label: vault.source.label,
    write: async () => undefined,
    read: (offset, byteLength) => vault.source.read(offset, byteLength),
    commit: async () => undefined,
    abort: async () => undefined,
  };
  const { edit } = await beginEdit(vault, nowhere, context, { ...change, restate: undefined });
  const { result } = await change.apply(edit, vault);
  return { result };
}
