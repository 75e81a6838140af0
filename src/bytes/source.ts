import type { Bytes } from "../base/bytes.ts";

export interface ReadOptions {
  /** Where the bytes go. It must have exactly the length asked for, and is what the promise resolves with. */
  readonly into?: Bytes;
  readonly signal?: AbortSignal | undefined;
  /**
   * Called with each number of bytes as they land, from the front on, by sources whose `reportsBytes` is true. What was
   * told of does not change any more, even where the read then fails.
   */
  readonly onBytes?: ((byteLength: number) => void) | undefined;
}

export interface StreamOptions {
  /** How many bytes; to the end of the source where absent. */
  readonly byteLength?: number;
  readonly signal?: AbortSignal | undefined;
  /** How many streams the reader goes through at a time, this one among them; 1 where absent. They share what is held. */
  readonly together?: number | undefined;
  /**
   * Where pieces may be laid, each as long as this but for the last: then nothing has to be copied. Sources that cannot do
   * it, or that ask twice, give them in memory of their own.
   */
  readonly into?: Bytes | undefined;
  /**
   * With `into`: called with each number of bytes as they land, by sources that receive them themselves; once more from the
   * front of a piece where a connection broke in the middle of it.
   */
  readonly onBytes?: ((byteLength: number) => void) | undefined;
}

/**
 * The options for the rest of a stream. Whoever did not say how much they need still has not: sources below go on more
 * carefully then.
 */
export function restOf({ byteLength, ...others }: StreamOptions, rest: number): StreamOptions {
  return byteLength === undefined ? others : { byteLength: rest, ...others };
}

/**
 * Immutable bytes with random access: a file, a URL, a Blob, a buffer, or one file inside a vault.
 * Every implementation passes test/contracts/source-contract.ts.
 */
export interface Source {
  /** Shown in errors and progress, never parsed; credentials are already stripped. */
  readonly label: string;
  /** Exact, and known before the first read. */
  readonly byteLength: number;
  /** A recipe by which a worker can open the same bytes itself; absent where there is none. */
  readonly descriptor?: SourceDescriptor | undefined;
  /** "stream" where long runs come faster that way than by one read after the other. */
  readonly prefers?: "stream" | undefined;
  /** True where `read` tells its progress by `onBytes`. */
  readonly reportsBytes?: boolean | undefined;
  /**
   * Resolves with exactly `byteLength` bytes from `offset`, or rejects with a SourceError: never short,
   * never padded. Without `into` the bytes may be shared: callers must not write to them.
   */
  read(offset: number, byteLength: number, options?: ReadOptions): Promise<Bytes>;
  /**
   * The bytes from `offset` on, in order, for callers that do not know yet how many they need. A piece is
   * valid until the next one is asked for. Leaving the loop early releases what the stream holds.
   */
  stream(offset: number, options?: StreamOptions): AsyncIterable<Bytes>;
  /** Releases handles. Reads under way may reject; closing twice is allowed. */
  close(): Promise<void>;
}

/** Structured-clonable: what a worker needs to open the bytes of a Source on its own. */
export type SourceDescriptor =
  | {
      readonly kind: "file";
      readonly path: string;
      readonly byteLength: number;
      /** Identity of the file when it was opened, so that a worker never hashes another one. */
      readonly identity: string;
    }
  | { readonly kind: "blob"; readonly blob: Blob }
  | {
      readonly kind: "assembled";
      readonly files: readonly SourceDescriptor[];
      /** Three numbers a part: which file, -1 for zeros; where in it; how many bytes. */
      readonly rows: Float64Array<ArrayBuffer>;
      readonly byteLength: number;
    }
  | {
      readonly kind: "slice";
      readonly of: SourceDescriptor;
      readonly offset: number;
      readonly byteLength: number;
    };
