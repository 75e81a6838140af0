import type { Bytes } from "../base/bytes.ts";
import type { Extent } from "../bytes/extents.ts";
import type { OpenContext } from "./format.ts";

/** A file that belongs to a model of several. */
export interface Member {
  /** As the set has it: relative to the file that names it, or a full http(s) address. */
  readonly path: string;
  /** Where it is, where that is not beside the file that names it. */
  readonly url?: string | undefined;
  /** Where the set states it. */
  readonly byteLength?: number | undefined;
  /** Lower-case hex over the whole file, where the set states it. */
  readonly sha256?: string | undefined;
}

/** All files of a model of several. */
export interface Members {
  readonly files: readonly Member[];
  /** Present where the file that was looked at is an index beside `files`, and makes them a set. */
  readonly index?: MembersIndex | undefined;
}

export interface MembersIndex {
  readonly bytes: Bytes;
  /** The index for the same files under other paths; absent where it only ever names files beside it. */
  readonly renamed?: ((paths: readonly string[]) => Bytes) | undefined;
}

export interface MembersContext extends OpenContext {
  /** File name without its folder: the other files may be named after it. */
  readonly name: string;
}

/** A run of a file that has a BLAKE3 digest for every `pageBytes`. */
export interface PagedRun extends Extent {
  readonly pageBytes: number;
  /** One behind the other. */
  readonly digests: Bytes;
}

/** By what the weights of a file can be checked before all of it is here. */
export interface PageDigests {
  readonly runs: readonly PagedRun[];
  /** "some" where weights have no pages, and only the whole of them can be compared. */
  readonly coverage: "all" | "some";
}
