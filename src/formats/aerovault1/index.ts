import type { Format } from "../../model/format.ts";
import { legacyVersion } from "../aerovault/index.ts";

/** The descriptor of AeroVault v1; it loads the other entry files. */
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
