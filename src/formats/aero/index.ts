import { startsWith } from "../../base/bytes.ts";
import type { Format, Head, SniffResult } from "../../model/format.ts";

/** "AERO". */
const MAGIC = [0x41, 0x45, 0x52, 0x4f] as const;

/** The magic decides; a file of that name that has lost its first bytes is refused by this reader, in its words. */
export function sniffAero({ bytes }: Head): SniffResult {
  return startsWith(bytes, MAGIC) ? "yes" : "no";
}

/** AERO v0.1: what is known before a file asks for it, and what loads the rest. */
export const aero: Format = {
  id: "aero",
  name: "AERO",
  kind: "model",
  extensions: [".aero"],
  sniff: sniffAero,
  read: async () => (await import("./read.ts")).reader,
  verify: async () => (await import("./verify.ts")).verifier,
  write: async () => (await import("./write.ts")).writer,
};
