import type { Format } from "../../model/format.ts";
import { legacyVersion } from "../legacy-vaults.ts";

/** AeroVault v1: what is known before a file asks for it, and what loads the rest. */
export const aerovault1: Format = {
  id: "aerovault1",
  name: "AeroVault v1",
  kind: "archive",
  extensions: [".aerovault"],
  access: "read",
  sniff: ({ bytes }) => (legacyVersion(bytes) === 1 ? "yes" : "no"),
  read: async () => (await import("./read.ts")).reader,
  verify: async () => (await import("./verify.ts")).verifier,
};
