import type { Format } from "../../model/format.ts";
import { sniffSafetensors } from "./sniff.ts";

/** SafeTensors: what is known before a file asks for it, and what loads the rest. */
export const safetensors: Format = {
  id: "safetensors",
  name: "SafeTensors",
  kind: "model",
  extensions: [".safetensors", ".safetensors.index.json"],
  sniff: sniffSafetensors,
  read: async () => (await import("./read.ts")).reader,
  verify: async () => (await import("./verify.ts")).verifier,
  write: async () => (await import("./write.ts")).writer,
};
