import { startsWith } from "../../base/bytes.ts";
import type { Format, Head, SniffResult } from "../../model/format.ts";

export const MAGIC = [0x45, 0x4d, 0x42, 0x44] as const; // "EMBD"

/** The magic as a little-endian writer of the number 0x454D4244 would leave it (ADR-002 gives the number). */
export const SWAPPED: readonly number[] = [...MAGIC].reverse();

/** EMBD .weights: what is known before a file asks for it, and what loads the rest. */
export const embd: Format = {
  id: "embd",
  name: "EMBD",
  kind: "model",
  extensions: [".weights"],
  sniff: sniffEmbd,
  read: async () => (await import("./read.ts")).reader,
  verify: async () => (await import("./verify.ts")).verifier,
  write: async () => (await import("./write.ts")).writer,
};

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
async function sniffLayout(head: Head): Promise<SniffResult> {
  return (await import("./read.ts")).sniffLayout(head);
}
