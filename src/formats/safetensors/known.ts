import type { KnownFormat } from "../../model/format.ts";
import { sniffSafetensors } from "./sniff.ts";

/** SafeTensors, as far as it is known before a file asks for it. */
export const knownSafetensors: KnownFormat = {
  id: "safetensors",
  name: "SafeTensors",
  kind: "model",
  extensions: [".safetensors", ".safetensors.index.json"],
  sniff: sniffSafetensors,
  load: async () => (await import("./format.ts")).safetensors,
};
