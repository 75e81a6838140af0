import type { Format } from "../../model/format.ts";
import { sniffApr } from "./sniff.ts";

/**
 * The opening read: header, metadata and index of a model without a vocabulary, at a small cost where there is more.
 * Metadata stands first (spec, "Streaming"): whoever wants only that should get only that.
 */
export const OPENING_BYTES = 64 << 10;

/** APR in all its layouts: what is known before a file asks for it, and what loads the rest. */
export const apr: Format = {
  id: "apr",
  name: "APR",
  kind: "model",
  extensions: [".apr"],
  openingBytes: OPENING_BYTES,
  sniff: sniffApr,
  read: async () => (await import("./read.ts")).reader,
  verify: async () => (await import("./verify.ts")).verifier,
  write: async () => (await import("./write.ts")).writer,
};
