import type { Loss, Warned } from "../../model/finding.ts";
import type { PasswordSource } from "../../model/format.ts";

/** What `tare convert --json` prints, and `shard`, `merge` and `dequantize`. */
export interface ConvertResult extends Warned {
  readonly format: string;
  readonly dryRun: boolean;
  readonly files: readonly { readonly path: string; readonly byteLength: number }[];
  readonly byteLength: number;
  readonly tensorCount: number;
  readonly notes: readonly string[];
  readonly losses: readonly Loss[];
}

export type VaultProfile = "fast" | "balanced" | "archive";

/** What `tare upgrade --json` prints: of a vault, the number of its entries. */
export interface UpgradeResult extends Omit<ConvertResult, "tensorCount"> {
  readonly tensorCount?: number | undefined;
  readonly entryCount?: number | undefined;
}

/** How an older vault becomes one of version 3, where the runtime has files. */
export interface VaultUpgrading {
  readonly label: string;
  /** Of the new vault. */
  readonly path: string;
  readonly profile: VaultProfile;
  /** Of the new vault. */
  readonly password: PasswordSource | undefined;
}
