import { startsWith } from "../../base/bytes.ts";
import type { Format, Head, SniffResult } from "../../model/format.ts";

export const MAGIC = [0x45, 0x4d, 0x42, 0x44] as const; // "EMBD"

/** The magic as a little-endian writer of the number 0x454D4244 would store it (ADR-002 gives the number). */
export const SWAPPED: readonly number[] = [...MAGIC].reverse();

/** EMBD .weights: what is known before its code is loaded, and the loaders of the rest. */
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
 * Sure only if a layout is certain, because other programs use the same four letters. The magic alone, complete or cut
 * off, is "possible", so that this reader refuses a damaged file named .weights.
 */
export function sniffEmbd(head: Head): SniffResult | Promise<SniffResult> {
  const { bytes, byteLength } = head;
  if (startsWith(bytes, MAGIC) || startsWith(bytes, SWAPPED)) return sniffLayout(head);
  const isCut = byteLength < MAGIC.length && byteLength > 0;
  return isCut && startsWith(Uint8Array.from(MAGIC), [...bytes]) ? "possible" : "no";
}

/** The code that distinguishes the layouts is loaded only for files that may have one. */
async function sniffLayout(head: Head): Promise<SniffResult> {
  return (await import("./read.ts")).sniffLayout(head);
}
