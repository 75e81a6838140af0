import type { VaultKeys } from "../../formats/aerovault/keys.ts";
import { type ChunkerName, gearRule } from "../../formats/aerovault/write/gear-rules.ts";
import { checkBounds, effectiveLevel, type VaultSettings } from "../../formats/aerovault/write/profiles.ts";
import type { SealSetup } from "../../formats/aerovault/write/seal-job.ts";
import type { Engine } from "../../primitives/engine.ts";

/** How files are cut, compressed and sealed: what a vault's manifest says, by the chunker that is asked for. */
export async function sealSetup(
  engine: Engine,
  { bounds, level }: { readonly bounds: VaultSettings["bounds"]; readonly level: number | undefined },
  { keys, chunker, label }: { readonly keys: VaultKeys; readonly chunker: ChunkerName; readonly label: string },
): Promise<SealSetup> {
  checkBounds(bounds, label);
  return {
    keys,
    level: effectiveLevel(level),
    compression: chunker === "reference" ? "reference" : "adaptive",
    gear: await gearRule(engine, chunker, { keys, bounds }),
  };
}
