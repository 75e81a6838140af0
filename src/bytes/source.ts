/// <reference lib="esnext.disposable" preserve="true" />
import type { Bytes } from "../base/bytes.ts";

export interface ReadOptions {
  /** The buffer for the bytes. It must have exactly the length asked for, and the promise resolves with it. */
  readonly into?: Bytes;
  readonly signal?: AbortSignal | undefined;
}

export interface StreamOptions {
  /** How many bytes; to the end of the source if absent. */
  readonly byteLength?: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * The options for the rest of a stream. If the reader did not say how much it needs, the rest has no length either:
 * sources below then read ahead more carefully.
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
  /**
   * A recipe with which a worker can open the same bytes itself; absent if there is none. It is the only member beyond
   * the bytes: a Source cannot move to another thread, and hashing there takes half the time.
   */
  readonly descriptor?: SourceDescriptor | undefined;
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
  /** What `await using` calls; sources of "tare/bytes" have it. */
  [Symbol.asyncDispose]?(): Promise<void>;
}

/** A source that `await using` closes. */
export type OpenSource = Source & AsyncDisposable;

/** Adds what `await using` calls. */
export function disposable(source: Source): OpenSource {
  return Object.assign(source, { [Symbol.asyncDispose]: () => source.close() });
}

/** Bytes that a stream hands out at once where nothing else decides: small enough that leaving early saves work. */
export const PIECE_BYTES = 1 << 20;

/** Structured-clonable: what a worker needs to open the bytes of a Source on its own. */
export type SourceDescriptor =
  | {
      readonly kind: "file";
      readonly path: string;
      readonly byteLength: number;
      /** Identity of the file when it was opened, so that a worker never hashes another one. */
      readonly identity: string;
      /** When it was written, in milliseconds since 1970. */
      readonly modified?: number | undefined;
      /** The number by which this process has it open, as long as the source is. */
      readonly number?: number | undefined;
    }
  | { readonly kind: "blob"; readonly blob: Blob }
  | {
      readonly kind: "assembled";
      readonly files: readonly SourceDescriptor[];
      /** Three numbers per part: which file, -1 for zeros; where in it; how many bytes. */
      readonly rows: Float64Array<ArrayBuffer>;
      readonly byteLength: number;
    }
  | {
      readonly kind: "slice";
      readonly of: SourceDescriptor;
      readonly offset: number;
      readonly byteLength: number;
    };
