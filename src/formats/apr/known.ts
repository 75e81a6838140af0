import type { KnownFormat } from "../../model/format.ts";
import { sniffApr } from "./sniff.ts";

/**
 * The opening read: header, metadata and index of a model without a vocabulary, at a small cost where there is more.
 * Metadata stands first (spec, "Streaming"): whoever wants only that should get only that.
 */
export const OPENING_BYTES = 64 << 10;

/** APR in all its layouts, as far as it is known before a file asks for it. */
export const knownApr: KnownFormat = {
  id: "apr",
  name: "APR",
  kind: "model",
  extensions: [".apr"],
  openingBytes: OPENING_BYTES,
  sniff: sniffApr,
  load: async () => (await import("./format.ts")).apr,
};
