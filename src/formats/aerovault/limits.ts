import { defineLimits, type Limits } from "../../base/limits.ts";

/** Limits for opening and reading a vault. */
export const AEROVAULT_LIMITS = defineLimits({
  manifestBytes: {
    default: 128 << 20,
    unit: "bytes",
    reason: "The manifest is decrypted and parsed in memory; the reference reads no longer one",
    provenance: "spec",
  },
  directoryBytes: {
    default: 16 << 20,
    unit: "bytes",
    reason: "The extension directory is parsed in memory; the reference reads no longer one",
    provenance: "spec",
  },
  extensions: {
    default: 4096,
    unit: "entries",
    reason: "Known vaults have two; every row costs memory",
    provenance: "tare",
  },
  pathLength: {
    default: 4096,
    unit: "characters",
    reason: "As long as a path of Linux; looking at the folders of a longer one takes the square of its length",
    provenance: "tare",
  },
  pathDepth: {
    default: 256,
    unit: "levels",
    reason: "The reference stores folders in folders 100 deep; each is looked for, and opened when it is extracted",
    provenance: "tare",
  },
  blockBytes: {
    default: 64 << 20,
    unit: "bytes",
    reason: "A stored block is read and decrypted whole; the reference reads no longer one",
    provenance: "spec",
  },
  chunkBytes: {
    default: 256 << 20,
    unit: "bytes",
    reason: "A chunk is decompressed whole; no chunker may be declared with a higher maximum",
    provenance: "spec",
  },
});

/** The values in force. */
export type AerovaultLimits = Limits<typeof AEROVAULT_LIMITS>;
