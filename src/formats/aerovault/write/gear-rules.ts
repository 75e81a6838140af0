import { concatBytes } from "../../../base/bytes.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import type { GearRule } from "../../../primitives/chunking/gear.ts";
import type { Engine } from "../../../primitives/engine.ts";
import { deriveFromMaster, type VaultKeys } from "../keys.ts";
import type { ChunkBounds } from "../manifest.ts";

/** "keyed" cuts by a secret table and finds its cuts again behind an edit; "reference" cuts as the reference does. */
export type ChunkerName = "keyed" | "reference";
export const CHUNKERS: readonly ChunkerName[] = ["keyed", "reference"];

/** Another version of this label never deduplicates with this one: docs/vault.md has a known answer. */
const KEYED_TABLE_INFO = "tare gear table v1";
const REFERENCE_TABLE_LABEL = encodeUtf8("AeroVault v3 gear-cdc table");
const TABLE_ENTRIES = 256;

/** The rule by which a vault's files are cut. Chunk lengths of a keyed vault tell nothing about known files. */
export async function gearRule(
  engine: Engine,
  chunker: ChunkerName,
  { keys, bounds }: { readonly keys: VaultKeys; readonly bounds: ChunkBounds },
): Promise<GearRule> {
  const { min, avg, max } = bounds;
  const lengths = { minBytes: min, averageBytes: avg, maxBytes: max };
  if (chunker === "reference") return { table: await referenceTable(engine), step: "rotate", ...lengths };
  return { table: await keyedTable(engine, keys), step: "shift", ...lengths };
}

/** 256 numbers from the vault's own key (dossier 15). */
export async function keyedTable(engine: Engine, keys: VaultKeys): Promise<BigUint64Array<ArrayBuffer>> {
  const bytes = await deriveFromMaster(engine, keys, KEYED_TABLE_INFO, TABLE_ENTRIES * 8);
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const table = BigUint64Array.from({ length: TABLE_ENTRIES }, (_, i) => view.getBigUint64(8 * i, true));
  bytes.fill(0);
  return table;
}

/** 256 numbers that everybody knows: the first bytes of BLAKE3 over a label and the byte's value (dossier 2.1). */
export async function referenceTable(engine: Engine): Promise<BigUint64Array<ArrayBuffer>> {
  const table = new BigUint64Array(TABLE_ENTRIES);
  for (let i = 0; i < TABLE_ENTRIES; i++) {
    const digest = await engine.digest("blake3", concatBytes([REFERENCE_TABLE_LABEL, Uint8Array.of(i)]));
    table[i] = new DataView(digest.buffer, digest.byteOffset).getBigUint64(0, true);
  }
  return table;
}
