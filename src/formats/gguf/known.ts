import { startsWith } from "../../base/bytes.ts";
import type { KnownFormat } from "../../model/format.ts";

/** "GGUF"; the same four bytes in both byte orders. */
const MAGIC = [0x47, 0x47, 0x55, 0x46] as const;

/** GGUF, versions 2 and 3, as far as it is known before a file asks for it. */
export const knownGguf: KnownFormat = {
  id: "gguf",
  name: "GGUF",
  kind: "model",
  extensions: [".gguf"],
  sniff: ({ bytes }) => (startsWith(bytes, MAGIC) ? "yes" : "no"),
  load: async () => (await import("./format.ts")).gguf,
};
