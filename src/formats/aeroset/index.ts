import type { Format } from "../../model/format.ts";
import { SET_FILE_NAME } from "./plan-names.ts";
import { sniffAeroset } from "./sniff.ts";

/** AEROSET v0.1 and v0.2: what is known before a file asks for them, and what loads the rest. */
export const aeroset: Format = {
  id: "aeroset",
  name: "AEROSET",
  kind: "model",
  extensions: [".aeroset.json"],
  folderName: SET_FILE_NAME,
  sniff: sniffAeroset,
  read: async () => (await import("./read.ts")).reader,
  verify: async () => (await import("./verify.ts")).verifier,
  write: async () => (await import("./write.ts")).writer,
};
