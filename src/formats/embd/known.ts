import type { KnownFormat } from "../../model/format.ts";
import { sniffEmbd } from "./sniff.ts";

/** EMBD .weights, as far as it is known before a file asks for it. */
export const knownEmbd: KnownFormat = {
  id: "embd",
  name: "EMBD",
  kind: "model",
  extensions: [".weights"],
  sniff: sniffEmbd,
  load: async () => (await import("./format.ts")).embd,
};
