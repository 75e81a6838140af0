import type { Bytes } from "../base/bytes.ts";
import type { Source } from "./source.ts";

export interface SpoolOptions {
  /** Shown in errors: what the bytes are a copy of. */
  readonly label: string;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Copies bytes to where they need no memory, and gives them back as a Source: for what must be seen whole before any of
 * it may be handed out. Whoever supplied the spool frees the copies when the container is closed.
 */
export type Spool = (pieces: AsyncIterable<Bytes>, options: SpoolOptions) => Promise<Source>;
