import { startsWith } from "../../../src/base/bytes.ts";
import type { Format } from "../../../src/model/format.ts";
import { MAGIC } from "./layout.ts";

/** A format for one test. Its imports are those of a folder in `src/formats/`, once it is copied there. */
export const toy: Format = {
  id: "toy",
  name: "Toy",
  kind: "model",
  extensions: [".toy"],
  sniff: ({ bytes }) => (startsWith(bytes, MAGIC) ? "yes" : "no"),
  read: async () => (await import("./read.ts")).reader,
  verify: async () => (await import("./verify.ts")).verifier,
  write: async () => (await import("./write.ts")).writer,
};
