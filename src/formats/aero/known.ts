import type { KnownFormat } from "../../model/format.ts";
import { sniffAero } from "./sniff.ts";

/** AERO v0.1, as far as it is known before a file asks for it. */
export const knownAero: KnownFormat = {
  id: "aero",
  name: "AERO",
  kind: "model",
  extensions: [".aero"],
  sniff: sniffAero,
  load: async () => (await import("./format.ts")).aero,
};
