import type { Format } from "../../model/format.ts";
import { sniffEmbd } from "./sniff.ts";

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
