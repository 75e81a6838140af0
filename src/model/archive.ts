import type { Source } from "../bytes/source.ts";
import type { Finding } from "./finding.ts";
import type { Part } from "./model.ts";

/** A file or directory inside an archive. A file's bytes are again a Source, so everything recurses. */
export interface Entry {
  /** Relative, forward slashes, no leading slash. */
  readonly path: string;
  readonly type: "file" | "directory";
  readonly size: number;
  /** Milliseconds since 1970, where the archive keeps it. */
  readonly modified?: number;
  source(): Source;
}

/** Files, not tensors: a vault. */
export interface Archive {
  readonly kind: "archive";
  readonly format: string;
  readonly version: string | undefined;
  readonly parts: readonly Part[];
  readonly entries: readonly Entry[];
  readonly warnings: readonly Finding[];
  readonly facts: readonly (readonly [string, string])[];
  /** Throws `usage/entry-not-found`. */
  entry(path: string): Entry;
  close(): Promise<void>;
}
