import type { KnownFormat } from "../../model/format.ts";
import { HEADER_BYTES } from "./layout.ts";
import { sniffAerovault } from "./sniff.ts";

/** AeroVault v3, as far as it is known before a file asks for it. */
export const knownAerovault: KnownFormat = {
  id: "aerovault",
  name: "AeroVault",
  kind: "archive",
  extensions: [".aerovault", ".aerovz", ".aerozip", ".av3"],
  // Blocks begin behind the header: reading more would be for nothing.
  openingBytes: HEADER_BYTES,
  sniff: sniffAerovault,
  load: async () => (await import("./format.ts")).aerovault,
};
