import type { Bytes } from "../../base/bytes.ts";
import { IntegrityError, type Location } from "../../base/errors.ts";
import type { Source } from "../../bytes/source.ts";
import type { Finding } from "../../model/finding.ts";
import type { ChunkStore } from "./chunk-store.ts";
import type { ExtensionRow } from "./extensions.ts";
import type { VaultCipher } from "./framing.ts";
import type { StoredHeader } from "./header.ts";
import { type VaultKeys, wipeKeys } from "./keys.ts";
import type { AerovaultLimits } from "./limits.ts";
import type { Manifest } from "./manifest.ts";

/** Bytes of a vault as they were before they were damaged. */
export interface HealedPart {
  readonly name: "header" | "manifest" | "extension directory";
  /** In the file. */
  readonly offset: number;
  readonly bytes: Bytes;
  /** Where it comes from something beside the vault, which may be of another state of it. */
  readonly origin?: "sidecar" | undefined;
}

/** A vault whose control region was read and proven: what readers and writers work on. */
export interface Vault {
  readonly source: Source;
  readonly header: StoredHeader;
  readonly keys: VaultKeys;
  readonly cipher: VaultCipher;
  readonly manifest: Manifest;
  /** Nonce and tag of the manifest in the file. */
  readonly manifestSeal: Bytes;
  /** The extension directory; payloads stay in the file until somebody reads them. */
  readonly extensions: readonly ExtensionRow[];
  readonly chunks: ChunkStore;
  readonly limits: AerovaultLimits;
  readonly warnings: readonly Finding[];
  /** What was read as parity has it, because the file has something else there: nothing is written to such a vault. */
  readonly healed: readonly HealedPart[];
}

/**
 * Refuses to write where opening had to heal something: what is written next would be all that is left of what could heal
 * the rest.
 */
export function checkUndamaged({ healed, source }: Pick<Vault, "healed" | "source">, action: string): void {
  const [part] = healed;
  if (part === undefined) return;
  const message = `Cannot ${action}: its ${part.name} is damaged`;
  const at = { source: source.label, offset: part.offset };
  const hint = "The vault is unchanged; run tare vault repair first";
  throw new IntegrityError("integrity/aerovault.healed", message, at, { hint });
}

/** Where the manifest stands, for errors. */
export function manifestPlace({ source, header }: Pick<Vault, "source" | "header">): Location {
  return { source: source.label, offset: header.values.manifestOffset };
}

/** Wipes what opens the vault and closes its file. */
export async function closeVault(vault: Vault): Promise<void> {
  vault.chunks.clear();
  vault.cipher.wipe();
  wipeKeys(vault.keys);
  await vault.source.close();
}
