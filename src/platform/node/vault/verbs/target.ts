import type { CommonOptions } from "../../../../api/options.ts";
import { type Applied, type Changed, changeVault, type VaultChange, type VaultWriteContext } from "../change.ts";

/** How the changes of one vault become commits. */
export interface ChangeTarget {
  /** As the user named it. */
  readonly vault: string;
  /** Names the caller in errors about what was asked for. */
  readonly source: string;
  readonly context: VaultWriteContext;
  readonly dryRun: boolean;
  readonly onProgress?: CommonOptions["onProgress"];
  /** Makes a change: a commit of its own, or a part of a batch. */
  commit<T>(change: EntriesChange<T>): Promise<Pick<Changed<T>, "result"> & { readonly byteLength: number | null }>;
}

/** A change that leaves stored blocks where they are. */
export type EntriesChange<T> = Pick<VaultChange<T>, "expectedBytes"> & {
  apply(...of: Parameters<VaultChange<T>["apply"]>): Promise<Applied<T>>;
};

export interface TargetOptions extends Pick<CommonOptions, "onProgress"> {
  readonly dryRun?: boolean | undefined;
  /** The vault, if absent. */
  readonly source?: string | undefined;
}

/** Each change of this vault is one commit. */
export function targetOf(vault: string, context: VaultWriteContext, options: TargetOptions = {}): ChangeTarget {
  const { dryRun = false, onProgress, source = vault } = options;
  return {
    vault,
    source,
    context,
    dryRun,
    onProgress,
    async commit(change) {
      const run = dryRun ? "dry" : undefined;
      const { result, sealed } = await changeVault(vault, context, { ...change, layout: "update", run });
      return { result, byteLength: sealed?.byteLength ?? null };
    },
  };
}
