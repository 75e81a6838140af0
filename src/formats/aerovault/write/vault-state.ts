import { type Bytes, EMPTY_BYTES } from "../../../base/bytes.ts";
import type { Extent } from "../../../bytes/extents.ts";
import type { RandomBytes } from "../../../primitives/crypto/secrets.ts";
import type { Engine } from "../../../primitives/engine.ts";
import { entryList } from "../entry-list.ts";
import type { ExtensionRow } from "../extensions.ts";
import { NO_EXTRA_KEYS } from "../field-reader.ts";
import type { KeySlots, VaultKeys } from "../keys.ts";
import type { Manifest, WrapperRecord } from "../manifest.ts";
import type { Vault } from "../vault.ts";
import type { VaultSettings } from "./profiles.ts";

/** A vault as it was opened: what an edit starts from. Keys stay the caller's, who wipes them. */
export interface VaultState {
  readonly label: string;
  readonly keys: VaultKeys;
  readonly slots: KeySlots;
  readonly manifest: Manifest;
  readonly extensions: readonly ExtensionRow[];
  /** Manifest, extension directory and extension payload, where they lie in the file. */
  readonly sections: { readonly manifest: Extent; readonly directory: Extent; readonly payload: Extent };
  /** The bytes of the file. */
  read(offset: number, byteLength: number): Promise<Bytes>;
}

/** What an edit starts from, of a vault that was opened. Closing the vault ends it. */
export function stateOf({ source, header, keys, manifest, extensions }: Vault): VaultState {
  const { values } = header;
  return {
    label: source.label,
    keys,
    slots: values,
    manifest,
    extensions,
    sections: {
      manifest: { offset: values.manifestOffset, byteLength: values.manifestLength },
      directory: { offset: values.extensionDirectoryOffset, byteLength: values.extensionDirectoryLength },
      payload: { offset: values.extensionPayloadOffset, byteLength: values.extensionPayloadLength },
    },
    read: (offset, byteLength) => source.read(offset, byteLength),
  };
}

/** What an edit needs from outside; tests give a fixed stream and a stopped clock. */
export interface EditHost {
  readonly engine: Engine;
  readonly random: RandomBytes;
  /** "YYYY-MM-DDTHH:MM:SSZ". */
  readonly now: () => string;
  readonly signal?: AbortSignal | undefined;
  /**
   * "reference": nothing is written that the reference would not write, and what is replaced stays until something is
   * removed. For tests that compare bytes.
   */
  readonly manner?: "reference" | undefined;
}

/** The present time as manifests have it: UTC, whole seconds (dossier 3.1). */
export function currentTime(): string {
  return new Date().toISOString().replace(/\.\d{3}Z$/, "Z");
}

/** The manifest of a vault without entries, wrappers as the reference writes them (dossier 3.1). */
export function emptyManifest(
  lane: VaultKeys["lane"],
  { level, bounds }: VaultSettings,
  { now, parityPercent }: { readonly now: string; readonly parityPercent?: number | undefined },
): Manifest {
  const wrapper = (algorithmId: string, own: Partial<WrapperRecord> = {}): WrapperRecord => ({
    algorithmId,
    algorithmVersion: 1,
    ...own,
    extra: NO_EXTRA_KEYS,
  });
  return {
    created: now,
    modified: now,
    wrappers: {
      packing: wrapper("small-file-batching"),
      chunking: wrapper("gear-cdc", { bounds }),
      chunk_id: wrapper("blake3-keyed-128"),
      compression: wrapper("zstd", { level }),
      crypt: wrapper(lane === "plain" ? "none" : "aes-256-gcm-siv"),
      cipher_hash: wrapper("blake3-256"),
      extra: NO_EXTRA_KEYS,
    },
    entries: entryList([]),
    chunks: new Map(),
    errorCorrectionPct: parityPercent,
    extra: NO_EXTRA_KEYS,
  };
}

/** The state from which a new vault is sealed for the first time. */
export function newVaultState(
  label: string,
  parts: Pick<VaultState, "keys" | "slots" | "manifest" | "extensions">,
): VaultState {
  const nowhere = { offset: 0, byteLength: 0 };
  return {
    label,
    ...parts,
    sections: { manifest: nowhere, directory: nowhere, payload: nowhere },
    read: async () => EMPTY_BYTES,
  };
}
