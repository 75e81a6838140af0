import { startsWith } from "../../base/bytes.ts";
import type { Head, SniffResult } from "../../model/format.ts";
import { detectLayout } from "./detect.ts";
import { MAGIC } from "./layout.ts";

/**
 * Sure only where a layout is certain: other programs use the same four letters. The magic alone, whole or cut off, lets a
 * damaged file that is called .weights be refused by this reader.
 */
export function sniffEmbd({ bytes, byteLength }: Head): SniffResult {
  const detection = detectLayout({ bytes, byteLength });
  if (detection?.certainty === "certain") return "yes";
  if (detection !== undefined || startsWith(bytes, MAGIC)) return "possible";
  const isCut = byteLength < MAGIC.length && byteLength > 0;
  return isCut && startsWith(Uint8Array.from(MAGIC), [...bytes]) ? "possible" : "no";
}
