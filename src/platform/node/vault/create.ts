import { lstat, realpath } from "node:fs/promises";
import { existsError } from "../../../bytes/sink.ts";
import type { Source } from "../../../bytes/source.ts";
import type { VaultKeys } from "../../../formats/aerovault/keys.ts";
import type { SealedVault } from "../../../formats/aerovault/write/seal/seal.ts";
import { currentTime, draftSource, type VaultDraft } from "../../../formats/aerovault/write/state.ts";
import { type CreateOptions, createVault } from "../../../operations/vault/create.ts";
import { secureRandom } from "../../../primitives/crypto/secrets.ts";
import { fullPath } from "../errors.ts";
import { checkReplaceable } from "../files/sink.ts";
import { removeVaultLitter } from "../files/stale-files.ts";
import type { VaultWriteContext } from "./change.ts";
import { afterwards, createVaultDraft } from "./draft.ts";
import { lockVault } from "./lock.ts";
import { recallLane, rememberVault } from "./memory.ts";
import { checkWritable } from "./writable.ts";

export interface NewVaultFile extends CreateOptions {
  readonly overwrite: "refuse" | "replace";
  /** Checks the whole vault before it gets its name; throwing drops it. It must not close the source. */
  readonly check?: ((vault: Source) => Promise<void>) | undefined;
  /** Called when the vault has its name, still under its lock, with its keys, which are wiped afterwards. */
  readonly onCreated?: ((keys: VaultKeys) => Promise<void>) | undefined;
}

/** Makes a vault on disk, empty or filled: it appears under its name when it is complete, or not at all. */
export async function createVaultFile(
  path: string,
  { overwrite, check, onCreated, ...options }: NewVaultFile,
  {
    engine,
    env,
    memory,
    signal,
    lockTimeoutMs,
  }: Pick<VaultWriteContext, "engine" | "env" | "memory" | "signal" | "lockTimeoutMs">,
): Promise<SealedVault> {
  const place = await checkVaultPlace(path);
  const lock = await lockVault(place, { signal, waitMs: lockTimeoutMs });
  try {
    await removeVaultLitter(place); // of a writer that was killed earlier
    const draft = await createVaultDraft(place, { label: path, overwrite });
    try {
      const host = { engine, random: secureRandom, now: currentTime, signal };
      const target = check === undefined ? draft : checkedDraft(draft, check);
      return await createVault(target, options, host, async (keys, sealed) => {
        await afterwards(path, async () => {
          await recallLane(keys.lane, { outer: path, inner: [] }, { env, memory, encryption: "waived" });
          if (memory !== "read") await rememberVault({ ...sealed, keys }, engine, env);
          await onCreated?.(keys);
        });
      });
    } catch (error) {
      await draft.abort();
      throw error;
    }
  } finally {
    await lock.release();
  }
}

/** Refuses a path where no new vault can go, before any work is done: all that is known without trying it. */
export async function checkNewVault(path: string, overwrite: "refuse" | "replace"): Promise<void> {
  if (overwrite === "refuse" && (await lstat(path).catch(() => undefined)) !== undefined) throw existsError(path);
  await checkVaultPlace(path);
  await checkReplaceable(path);
}

/** Where a vault of this name goes, links followed; refuses a file that is there and must not be replaced. */
export async function checkVaultPlace(path: string): Promise<string> {
  const place = await realpath(path).catch(() => fullPath(path)); // most often there is nothing there yet
  await checkWritable(place, path);
  return place;
}

/** A draft that is looked at as a whole before it is committed. */
function checkedDraft(draft: VaultDraft, check: (vault: Source) => Promise<void>): VaultDraft {
  return {
    label: draft.label,
    descriptor: draft.descriptor,
    write: (offset, bytes) => draft.write(offset, bytes),
    read: (offset, byteLength) => draft.read(offset, byteLength),
    async commit(header, byteLength) {
      await draft.write(0, header);
      await check(draftSource(draft, byteLength));
      await draft.commit(header, byteLength);
    },
    abort: () => draft.abort(),
  };
}
