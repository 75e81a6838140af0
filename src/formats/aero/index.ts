import { startsWith } from "../../base/bytes.ts";
import type { Format, Head, SniffResult } from "../../model/format.ts";

/** "AERO". */
const MAGIC = [0x41, 0x45, 0x52, 0x4f] as const;

/** The magic decides. An .aero file that lost its first bytes is still refused by this reader, with its message. */
function sniffAero({ bytes }: Head): SniffResult {
  return startsWith(bytes, MAGIC) ? "yes" : "no";
}

/** The descriptor of AERO v0.1; it loads the other entry files. */
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
