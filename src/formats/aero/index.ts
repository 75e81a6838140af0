import type { Format } from "../../model/format.ts";
import { sniffAero } from "./sniff.ts";

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
