import type { Format } from "../../model/format.ts";
import { legacyVersion } from "../aerovault/index.ts";

/** The descriptor of AeroVault v2; it loads the other entry files. */
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
