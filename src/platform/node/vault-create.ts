import { realpath } from "node:fs/promises";
import { resolve } from "node:path";
import type { Bytes } from "../../base/bytes.ts";
import { checkRange } from "../../bytes/extents.ts";
import { deliver } from "../../bytes/layers/base.ts";
import type { Source } from "../../bytes/source.ts";
import type { VaultDraft } from "../../formats/aerovault/write/draft.ts";
import type { SealedVault } from "../../formats/aerovault/write/seal.ts";
import { currentTime } from "../../formats/aerovault/write/vault-state.ts";
import { type CreateOptions, createVault } from "../../operations/vault/create.ts";
import { secureRandom } from "../../primitives/crypto/secrets.ts";
import { createVaultDraft } from "./vault-draft.ts";
import { removeVaultLitter } from "./vault-litter.ts";
import { lockVault } from "./vault-lock.ts";
import { recallLane, rememberVault } from "./vault-memory.ts";
import type { VaultWriteContext } from "./vault-writer.ts";

export interface NewVaultFile extends CreateOptions {
  readonly overwrite: "refuse" | "replace";
  /** Looks at the whole vault before it gets its name; throwing drops it. Closing the source is not its business. */
  readonly check?: ((vault: Source) => Promise<void>) | undefined;
}

/** Makes a vault on disk, empty or filled: it appears under its name when it is complete, or not at all. */
export async function createVaultFile(
  path: string,
  { overwrite, check, ...options }: NewVaultFile,
  { engine, env, signal }: Pick<VaultWriteContext, "engine" | "env" | "signal">,
): Promise<SealedVault> {
  const place = await realpath(path).catch(() => resolve(path)); // most often there is nothing there yet
  const lock = await lockVault(place, { signal });
  try {
    await removeVaultLitter(place); // of one that was killed on its way
    const draft = await createVaultDraft(place, { label: path, overwrite });
    try {
      const host = { engine, random: secureRandom, now: currentTime, signal };
      const target = check === undefined ? draft : checkedDraft(draft, check);
      return await createVault(target, options, host, async (keys, sealed) => {
        await recallLane(keys.lane, { outer: path, inner: [] }, { env, encryption: "waived" });
        await rememberVault({ ...sealed, keys }, engine, env);
      });
    } catch (error) {
      await draft.abort();
      throw error;
    }
  } finally {
    await lock.release();
  }
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

/** What was written to a draft so far, as a Source. */
export function draftSource(draft: Pick<VaultDraft, "label" | "read">, byteLength: number): Source {
  const { label } = draft;
  const read = async (offset: number, length: number, into?: Bytes): Promise<Bytes> => {
    checkRange(label, byteLength, offset, length);
    return deliver(await draft.read(offset, length), into);
  };
  return {
    label,
    byteLength,
    read: (offset, length, options) => read(offset, length, options?.into),
    async *stream(offset, options = {}) {
      const end = offset + (options.byteLength ?? byteLength - offset);
      for (let at = offset; at < end; at += STREAM_BYTES) yield read(at, Math.min(STREAM_BYTES, end - at));
    },
    close: async () => undefined,
  };
}

/** What a stream over a draft reads at a time. */
const STREAM_BYTES = 1 << 20;
