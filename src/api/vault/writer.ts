import type { TareError } from "../../base/errors.ts";
import type { Archive, Entry } from "../../model/archive.ts";
import type { Password } from "../../model/password.ts";
import type { OpenedInput, OpenRequest } from "../inputs.ts";
import type {
  AddOptions,
  ChangeOptions,
  ChangePasswordOptions,
  EmbedParityOptions,
  ExportParityOptions,
  NewEntry,
  RemoveOptions,
  StripParityOptions,
} from "./options.ts";
import type {
  VaultAddResult,
  VaultCompactResult,
  VaultCopyResult,
  VaultMkdirResult,
  VaultMoveResult,
  VaultParityResult,
  VaultPasswordResult,
  VaultRemoveResult,
} from "./results.ts";

/** Changes of entries. Each is one commit; within a batch all of them are one. */
export interface EntryWriter {
  add(what: readonly (string | NewEntry)[], options: AddOptions): Promise<VaultAddResult>;
  mkdir(paths: readonly string[], options: ChangeOptions): Promise<VaultMkdirResult>;
  remove(paths: readonly string[], options: RemoveOptions): Promise<VaultRemoveResult>;
  move(from: string, to: string, options: ChangeOptions): Promise<VaultMoveResult>;
  copy(from: string, to: string, options: ChangeOptions): Promise<VaultCopyResult>;
}

/** What a runtime does to change a vault. Options are checked already. */
export interface VaultWriter extends EntryWriter {
  changePassword(newPassword: Password, options: ChangePasswordOptions): Promise<VaultPasswordResult>;
  compact(options: ChangeOptions): Promise<VaultCompactResult>;
  exportParity(options: ExportParityOptions): Promise<VaultParityResult>;
  embedParity(options: EmbedParityOptions): Promise<VaultParityResult>;
  stripParity(options: StripParityOptions): Promise<VaultParityResult>;
  /** Collects the changes of `work`, and commits them at its end. */
  batch<T>(work: (writer: EntryWriter) => Promise<T>, options: ChangeOptions): Promise<T>;
  /** Whether two entries of two states of the vault have the same bytes. */
  isSame(before: Entry, after: Entry): boolean;
  /** Wipes the keys. */
  close(): void;
}

/** Called by a writer under the vault's lock, after a change that was written: the vault as it is now. */
export type OnChanged = (archive: Archive) => void;

/** What a runtime knows of the place that a vault was opened from. */
export interface VaultPlace {
  /** Facts about files beside the vault, after its own. */
  facts?(archive: Archive): Promise<Archive["facts"]>;
  /** Absent if the vault can only be read. */
  writer?(onChanged: OnChanged): VaultWriter;
}

/** The part of a runtime that vaults need. */
export interface VaultHost {
  /** Where a text leads, if there is more to know than its bytes. */
  vaultPlace?(text: string, opened: OpenedInput, request: OpenRequest): Promise<VaultPlace | undefined>;
  /** Extracts to a path; undefined if there are none here. */
  extractTo?(archive: Archive, entries: readonly Entry[], extraction: Extraction): Promise<Extracted>;
}

export interface Extraction {
  /** A path. */
  readonly root: string;
  /** The vault as the user named it. */
  readonly target: string | undefined;
  readonly overwrite: "refuse" | "replace";
  readonly run: "dry" | "real";
  readonly engine: OpenRequest["engine"];
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
}

export interface Extracted {
  readonly files: number;
  readonly directories: number;
  readonly byteLength: number;
  readonly lost: readonly { readonly path: string; readonly error: TareError }[];
}
