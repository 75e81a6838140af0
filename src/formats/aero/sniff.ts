import { startsWith } from "../../base/bytes.ts";
import type { Head, SniffResult } from "../../model/format.ts";

/** "AERO". */
const MAGIC = [0x41, 0x45, 0x52, 0x4f] as const;

/** The magic decides; a file of that name that has lost its first bytes is refused by this reader, in its words. */
export function sniffAero({ bytes }: Head): SniffResult {
  return startsWith(bytes, MAGIC) ? "yes" : "no";
}
