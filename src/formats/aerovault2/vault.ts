import type { Source } from "../../bytes/source.ts";
import type { Finding } from "../../model/finding.ts";
import type { StoredHeader2 } from "./header.ts";
import { type Vault2Keys, wipeKeys2 } from "./keys.ts";
import { HEADER_BYTES, PREFIX_BYTES } from "./layout.ts";
import type { Aerovault2Limits } from "./limits.ts";
import type { Manifest2, ManifestRow } from "./manifest.ts";

/** A row of the manifest with its decrypted name. */
export interface NamedRow extends ManifestRow {
  readonly path: string;
}

/** A vault whose header and manifest were read and proven. */
export interface Vault2 {
  readonly source: Source;
  readonly header: StoredHeader2;
  readonly keys: Vault2Keys;
  readonly manifest: Manifest2;
  readonly rows: readonly NamedRow[];
  readonly limits: Aerovault2Limits;
  readonly warnings: readonly Finding[];
}

/** Where the manifest's text begins in every vault. */
export const MANIFEST_OFFSET = HEADER_BYTES + PREFIX_BYTES;

/** The offset that offsets of entries count from. */
export function dataOffsetOf({ header }: Pick<Vault2, "header">): number {
  return MANIFEST_OFFSET + header.manifestLength;
}

/** Wipes the keys and closes the vault's file. */
export async function closeVault2({ keys, source }: Vault2): Promise<void> {
  wipeKeys2(keys);
  await source.close();
}
