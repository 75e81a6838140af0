import { startsWith } from "../../base/bytes.ts";
import type { Head, SniffResult } from "../../model/format.ts";
import { MAGIC, SWAPPED } from "./magic.ts";

/**
 * Sure only where a layout is certain: other programs use the same four letters. The magic alone, whole or cut off, lets a
 * damaged file that is called .weights be refused by this reader.
 */
export function sniffEmbd(head: Head): SniffResult | Promise<SniffResult> {
  const { bytes, byteLength } = head;
  if (startsWith(bytes, MAGIC) || startsWith(bytes, SWAPPED)) return sniffLayout(head);
  const isCut = byteLength < MAGIC.length && byteLength > 0;
  return isCut && startsWith(Uint8Array.from(MAGIC), [...bytes]) ? "possible" : "no";
}

/** What tells the layouts apart is loaded by files that may have one. */
async function sniffLayout({ bytes, byteLength }: Head): Promise<SniffResult> {
  const { detectLayout } = await import("./detect.ts");
  const detection = detectLayout({ bytes, byteLength });
  if (detection?.certainty === "certain") return "yes";
  return detection !== undefined || startsWith(bytes, MAGIC) ? "possible" : "no";
}
