import type { Bytes } from "../../base/bytes.ts";
import { blockExtent, decodeBlock } from "../../formats/aerovault/blocks/check.ts";
import { VaultCipher } from "../../formats/aerovault/cipher.ts";
import { type KeySlots, makeKeys, SALT_BYTES, type VaultKeys, wrapKeys } from "../../formats/aerovault/keys.ts";
import { NO_EXTRA_KEYS } from "../../formats/aerovault/manifest/field-reader.ts";
import type { ChunkRecord, ManifestEntry } from "../../formats/aerovault/manifest/records.ts";
import type { Vault } from "../../formats/aerovault/vault.ts";
import type { VaultEdit } from "../../formats/aerovault/write/edit.ts";
import { BlockSealer } from "../../formats/aerovault/write/seal/block-sealer.ts";
import { stateOf, type VaultState } from "../../formats/aerovault/write/state.ts";
import { type RandomBytes, secureRandom } from "../../primitives/crypto/secrets.ts";
import type { Engine } from "../../primitives/engine.ts";

export interface ReslotOptions {
  readonly random?: RandomBytes | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Key slots with the same keys for another password. The salt is new. */
export function reslot(
  engine: Engine,
  keys: VaultKeys,
  password: Bytes,
  { random = secureRandom, signal }: ReslotOptions = {},
): Promise<KeySlots> {
  return wrapKeys(engine, keys, password, { salt: random(SALT_BYTES), signal });
}

/** The state of a vault under completely new keys, as if nothing were stored in it yet. */
export async function restateUnderNewKeys(
  vault: Vault,
  engine: Engine,
  password: Bytes,
  signal?: AbortSignal,
): Promise<VaultState> {
  const keys = await makeKeys(engine, secureRandom);
  const slots = await reslot(engine, keys, password, { signal });
  const state = stateOf(vault);
  return { ...state, keys, slots, manifest: { ...state.manifest, chunks: new Map() } };
}

export interface RekeyOptions {
  readonly engine: Engine;
  /** The keys of the state that the edit began with. */
  readonly keys: VaultKeys;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
}

/**
 * Encrypts every used chunk again. Ids depend on the keys, so they change too; compressed bytes stay as they are. Every
 * block is checked on the way.
 */
export async function rekeyBlocks(vault: Vault, edit: VaultEdit, options: RekeyOptions): Promise<void> {
  const { engine, keys } = options;
  const cipher = await VaultCipher.create(engine, keys);
  const compressor = { compress: async (chunk: Bytes) => ({ payload: chunk, storedRaw: true }) };
  const sealer = new BlockSealer({ engine, cipher, compressor, random: secureRandom });
  try {
    const ids = new Map<string, string>();
    const used = edit.tree.referenced();
    const records = [...vault.manifest.chunks.values()].filter(({ id }) => used.has(id));
    for (const record of records.sort((a, b) => a.dataOffset - b.dataOffset)) {
      options.signal?.throwIfAborted();
      ids.set(record.id, await rekeyBlock(vault, edit, { record, sealer, engine }));
      options.onProgress?.(record.plaintextLen);
    }
    for (const entry of edit.tree.sorted()) {
      if (!entry.isDir) edit.tree.put(renamed(entry, ids));
    }
  } finally {
    cipher.wipe();
  }
}

interface Rekeying {
  readonly record: ChunkRecord;
  readonly sealer: BlockSealer;
  readonly engine: Engine;
}

async function rekeyBlock(vault: Vault, edit: VaultEdit, { record, sealer, engine }: Rekeying): Promise<string> {
  const { source, cipher, chunks } = vault;
  chunks.check(record);
  const { offset, byteLength } = blockExtent(record);
  const stored = await source.read(offset, byteLength);
  const chunk = await decodeBlock(stored, record, { engine, cipher }, { source: source.label, offset });
  const payload = record.storedRaw ? chunk : cipher.openBlock(stored.subarray(byteLength - record.blockLen), record);
  const id = sealer.chunkId(chunk);
  if (edit.has(id) || payload === undefined) return id;
  const name = { id, blockIndex: record.blockIndex, plaintextLen: record.plaintextLen };
  await edit.store(await sealer.sealPayload({ payload, storedRaw: record.storedRaw }, name));
  return id;
}

function renamed(entry: ManifestEntry, ids: ReadonlyMap<string, string>): ManifestEntry {
  return { ...entry, chunks: entry.chunks.map((id) => ids.get(id) ?? id), extra: entry.extra ?? NO_EXTRA_KEYS };
}
