import type { KnownFormat } from "../../model/format.ts";
import { legacyVersion } from "../legacy-vaults.ts";

/** AeroVault v2, as far as it is known before a file asks for it. */
export const knownAerovault2: KnownFormat = {
  id: "aerovault2",
  name: "AeroVault v2",
  kind: "archive",
  extensions: [".aerovault", ".av2"],
  access: "read",
  sniff: ({ bytes }) => (legacyVersion(bytes) === 2 ? "yes" : "no"),
  load: async () => (await import("./format.ts")).aerovault2,
};
