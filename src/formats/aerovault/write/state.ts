import { type Bytes, EMPTY_BYTES } from "../../../base/bytes.ts";
import { checkRange, type Extent } from "../../../bytes/extents.ts";
import { deliver } from "../../../bytes/layers/base.ts";
import type { Source } from "../../../bytes/source.ts";
import type { RandomBytes } from "../../../primitives/crypto/secrets.ts";
import type { Engine } from "../../../primitives/engine.ts";
import type { ExtensionRow } from "../extensions/rows.ts";
import type { KeySlots, VaultKeys } from "../keys.ts";
import { NO_EXTRA_KEYS } from "../manifest/field-reader.ts";
import { entryList, type Manifest, type WrapperRecord } from "../manifest/records.ts";
import type { Vault } from "../vault.ts";
import type { VaultSettings } from "./profiles.ts";

/** An opened vault, from which an edit starts. The keys stay with the caller, who wipes them. */
export interface VaultState {
  readonly label: string;
  readonly keys: VaultKeys;
  readonly slots: KeySlots;
  readonly manifest: Manifest;
  readonly extensions: readonly ExtensionRow[];
  /** Manifest, extension directory and extension payload, at their places in the file. */
  readonly sections: { readonly manifest: Extent; readonly directory: Extent; readonly payload: Extent };
  /** The bytes of the file. */
  read(offset: number, byteLength: number): Promise<Bytes>;
}

/** The state of an opened vault, from which an edit starts. It ends when the vault is closed. */
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

/** What an edit needs from outside; tests pass a fixed random stream and a stopped clock. */
export interface EditHost {
  readonly engine: Engine;
  readonly random: RandomBytes;
  /** "YYYY-MM-DDTHH:MM:SSZ". */
  readonly now: () => string;
  readonly signal?: AbortSignal | undefined;
  /** Bytes of stored blocks that were copied, compared with their hashes, or made parity of. */
  readonly onProgress?: ((byteLength: number) => void) | undefined;
  /**
   * "reference": writes only what the reference would write, and replaced blocks stay until a removal. For tests that
   * compare bytes.
   */
  readonly manner?: "reference" | undefined;
}

/** The current time in the form of manifests: UTC, whole seconds (docs/formats/aerovault.md#writing). */
export function currentTime(): string {
  return new Date().toISOString().replace(/\.\d{3}Z$/, "Z");
}

/** The manifest of a vault without entries, wrappers as the reference writes them (docs/formats/aerovault.md#manifest). */
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

/** The state for the first seal of a new vault. */
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

/** Bytes that a file must still have. */
export interface ExpectedRun {
  /** The lock beside the vault, which must have these bytes and no others; the vault itself if absent. */
  readonly file?: string | undefined;
  readonly offset: number;
  readonly bytes: Bytes;
}

/**
 * A vault that is being changed. Until `commit`, the vault stays as it was opened, no matter what is written here or
 * when the process dies. A platform implements this.
 */
export interface VaultDraft {
  /** Shown in errors: the path the user named. */
  readonly label: string;
  /** The descriptor that other threads of this process write to, if there is one. */
  readonly descriptor?: number | undefined;
  /**
   * The content that a writer by descriptor must find in the file before every write; if it differs, another writer is
   * at work.
   */
  readonly expected?: readonly ExpectedRun[] | undefined;
  /**
   * Writes at an offset that the current generation does not use. Several writes may be pending; the caller must not
   * change `bytes` until the promise settles.
   */
  write(offset: number, bytes: Bytes): Promise<void>;
  /** Bytes that were written here, or those of the opened vault. */
  read(offset: number, byteLength: number): Promise<Bytes>;
  /**
   * Makes everything durable, then makes the new header valid; the file ends at `byteLength`. `end` is the first byte
   * after everything that was written, by other threads too; `byteLength` if absent.
   */
  commit(header: Bytes, byteLength: number, end?: number): Promise<void>;
  /** Drops everything; may be called twice. `end` is the first byte after everything that other threads wrote. */
  abort(end?: number): Promise<void>;
}

/** The bytes written to a draft so far, as a Source. */
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

/** Bytes that a stream over a draft reads at a time. */
const STREAM_BYTES = 1 << 20;
