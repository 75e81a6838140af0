import type { Format } from "../../model/format.ts";
import { legacyVersion } from "../legacy-vaults.ts";

/** AeroVault v2: what is known before a file asks for it, and what loads the rest. */
export const aerovault2: Format = {
  id: "aerovault2",
  name: "AeroVault v2",
  kind: "archive",
  extensions: [".aerovault", ".av2"],
  access: "read",
  sniff: ({ bytes }) => (legacyVersion(bytes) === 2 ? "yes" : "no"),
  read: async () => (await import("./read.ts")).reader,
  verify: async () => (await import("./verify.ts")).verifier,
};
