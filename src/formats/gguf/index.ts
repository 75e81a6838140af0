import { startsWith } from "../../base/bytes.ts";
import type { Format } from "../../model/format.ts";

/** "GGUF"; the same four bytes in both byte orders. */
const MAGIC = [0x47, 0x47, 0x55, 0x46] as const;

/** GGUF, versions 2 and 3: what is known before its code is loaded, and the loaders of the rest. */
export const gguf: Format = {
  id: "gguf",
  name: "GGUF",
  kind: "model",
  extensions: [".gguf"],
  sniff: ({ bytes }) => (startsWith(bytes, MAGIC) ? "yes" : "no"),
  read: async () => (await import("./read.ts")).reader,
  verify: async () => (await import("./verify.ts")).verifier,
  write: async () => (await import("./write.ts")).writer,
};
