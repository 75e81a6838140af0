import type { KnownFormat } from "../../model/format.ts";
import { legacyVersion } from "../legacy-vaults.ts";

/** AeroVault v1, as far as it is known before a file asks for it. */
export const knownAerovault1: KnownFormat = {
  id: "aerovault1",
  name: "AeroVault v1",
  kind: "archive",
  extensions: [".aerovault"],
  access: "read",
  sniff: ({ bytes }) => (legacyVersion(bytes) === 1 ? "yes" : "no"),
  load: async () => (await import("./format.ts")).aerovault1,
};
