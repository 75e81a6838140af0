import type { Location } from "../../base/errors.ts";
import type { ArchiveStorage, Entry } from "../../model/archive.ts";
import type { Finding, Warned } from "../../model/finding.ts";
import type { ArchiveDiffReport } from "../../operations/diff.ts";

/** What `tare vault create --json` prints. */
export interface VaultCreateResult {
  readonly vault: string;
  readonly dryRun: boolean;
  readonly format: string;
  readonly version: string | null;
  /** Null for settings that are none of the three, and for vaults of older versions. */
  readonly profile: "fast" | "balanced" | "archive" | null;
  readonly encrypted: boolean;
  readonly byteLength: number;
}

/** What `tare vault add --json` prints. */
export interface VaultAddResult {
  readonly vault: string;
  readonly dryRun: boolean;
  readonly files: number;
  readonly directories: number;
  /** Of all files, before anything is compressed or found to be there. */
  readonly logicalBytes: number;
  /** Paths that had other contents before. */
  readonly replaced: readonly string[];
  readonly storedBytes: number;
  readonly storedBlocks: number;
  /** Of the vault; null in a dry run, within a batch, and if there was nothing to add. */
  readonly byteLength: number | null;
}

/** What `tare vault ls --json` prints. */
export interface VaultListResult extends Warned {
  readonly format: string;
  readonly entries: readonly {
    readonly path: string;
    readonly type: Entry["type"];
    readonly size: number;
    /** RFC 3339. */
    readonly modified?: string;
    readonly mode?: number;
  }[];
}

/** What `tare vault cat -o FILE --json` prints. */
export interface VaultCatResult extends Warned {
  readonly name: string;
  readonly byteLength: number;
  /** "authenticated" if a secret key proved each byte. */
  readonly verification?: "authenticated";
  readonly output: string;
}

/** What `tare vault extract --json` prints. */
export interface VaultExtractResult extends Warned {
  readonly directory: string;
  readonly dryRun: boolean;
  readonly files: number;
  readonly directories: number;
  readonly byteLength: number;
  /** Files that cannot be proven and were not written, with the reason. All others were. */
  readonly failed: readonly {
    readonly path: string;
    readonly code: string;
    readonly message: string;
    readonly at: Location;
  }[];
}

/** What `tare vault info --json` prints. */
export interface VaultInfoResult extends Partial<ArchiveStorage> {
  readonly format: string;
  readonly version: string | null;
  readonly byteLength: number;
  readonly entryCount: number;
  readonly fileCount: number;
  readonly directoryCount: number;
  readonly facts: Readonly<Record<string, string>>;
  readonly warnings: readonly Finding[];
}

/** What `tare vault diff --json` prints. */
export type VaultDiffResult = ArchiveDiffReport & Warned;

/** What `tare vault mkdir --json` prints. */
export interface VaultMkdirResult {
  readonly vault: string;
  readonly dryRun: boolean;
  readonly directories: readonly string[];
  /** With those above them that were missing. */
  readonly created: number;
}

/** What `tare vault rm --json` prints. */
export interface VaultRemoveResult {
  readonly vault: string;
  readonly dryRun: boolean;
  readonly entries: readonly string[];
  readonly removed: number;
  /** Bytes that only these entries used: the next change may take their room. */
  readonly freedBytes: number;
}

/** What `tare vault mv --json` prints. */
export interface VaultMoveResult {
  readonly vault: string;
  readonly dryRun: boolean;
  readonly from: string;
  readonly to: string;
}

/** What `tare vault cp --json` prints. */
export interface VaultCopyResult extends VaultMoveResult {
  readonly copied: number;
}

/** What `tare vault passwd --json` prints. */
export interface VaultPasswordResult {
  readonly vault: string;
  readonly dryRun: boolean;
  readonly changed: boolean;
}

/** What `tare vault compact --json` prints. */
export interface VaultCompactResult {
  readonly vault: string;
  readonly dryRun: boolean;
  readonly byteLengthBefore: number;
  readonly byteLength: number;
  readonly freedBytes: number;
}

/** What `tare vault parity --json` prints. */
export type VaultParityResult =
  | {
      readonly vault: string;
      readonly action: "export";
      readonly dryRun: boolean;
      readonly sidecar: string;
      readonly sidecarByteLength: number;
    }
  | {
      readonly vault: string;
      readonly action: "embed" | "strip";
      readonly dryRun: boolean;
      readonly byteLength: number | null;
      /** What became of the sidecar beside the vault. */
      readonly sidecarFate: "none" | "renewed" | "removed";
    };

/** What `tare vault repair --json` prints. */
export interface RepairVaultResult extends Warned {
  readonly vault: string;
  readonly dryRun: boolean;
  readonly output: string | null;
  /** Before the repair: "damaged" can be healed as a whole, "lost" cannot, and nothing was written. */
  readonly state: "intact" | "damaged" | "lost";
  readonly repaired: boolean;
  /** Of the vault as it should be. */
  readonly byteLength: number;
  readonly parts: readonly ("header" | "manifest" | "extension directory")[];
  readonly damagedBlocks: number;
  readonly lostBlocks: number;
  readonly lostFiles: readonly string[];
  readonly parity: "none" | "sound" | "damaged";
  /** Which parity healed blocks. */
  readonly origins: readonly ("embedded" | "sidecar")[];
  readonly header: "own" | "sidecar" | "unproven";
}
