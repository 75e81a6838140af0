import { startsWith } from "../../base/bytes.ts";
import type { Head, SniffResult } from "../../model/format.ts";
import { legacyVersion } from "../legacy-vaults.ts";

/** What the magics of all versions since 2 begin with. */
const FAMILY = [..."AEROVAULT"].map((character) => character.charCodeAt(0));

/** By the magic alone: whichever newer version follows, this reader has the better words for it. */
export function sniffAerovault({ bytes }: Head): SniffResult {
  if (legacyVersion(bytes) !== undefined) return "no";
  if (startsWith(bytes, FAMILY)) return "yes";
  // Damage in the first bytes of a vault must not make it look like something unknown.
  return "possible";
}
