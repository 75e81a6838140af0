import type { KnownFormat } from "../../model/format.ts";
import { SET_FILE_NAME } from "./plan-names.ts";
import { sniffAeroset } from "./sniff.ts";

/** AEROSET v0.1 and v0.2, as far as they are known before a file asks for them. */
export const knownAeroset: KnownFormat = {
  id: "aeroset",
  name: "AEROSET",
  kind: "model",
  extensions: [".aeroset.json"],
  folderName: SET_FILE_NAME,
  sniff: sniffAeroset,
  load: async () => (await import("./format.ts")).aeroset,
};
