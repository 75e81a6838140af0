import type { Format } from "../../model/format.ts";
import { HEADER_BYTES } from "./layout.ts";
import { sniffAerovault } from "./sniff.ts";

/** AeroVault v3: what is known before a file asks for it, and what loads the rest. */
export const aerovault: Format = {
  id: "aerovault",
  name: "AeroVault",
  kind: "archive",
  extensions: [".aerovault", ".aerovz", ".aerozip", ".av3"],
  // Blocks begin behind the header: reading more would be for nothing.
  openingBytes: HEADER_BYTES,
  sniff: sniffAerovault,
  read: async () => (await import("./read.ts")).reader,
  verify: async () => (await import("./verify.ts")).verifier,
};
