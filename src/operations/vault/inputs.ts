import type { Bytes } from "../../base/bytes.ts";
import type { Extent } from "../../bytes/extents.ts";
import type { Source, SourceDescriptor } from "../../bytes/source.ts";

/** What an entry keeps of the file it was made from. */
export interface InputFacts {
  /** Where it goes in the vault. */
  readonly path: string;
  /** What errors call it: the path on disk. */
  readonly label: string;
  /** RFC 3339. */
  readonly mtime?: string | undefined;
  /** Permission bits. */
  readonly mode?: number | undefined;
}

/** A directory, to be made where it is missing. */
export interface DirectoryInput extends InputFacts {
  readonly kind: "directory";
}

/** A file whose length is known before it is read. */
export interface FileInput extends InputFacts {
  readonly kind: "file";
  readonly size: number;
  /** By which another thread reads the same bytes, or notices that they are no longer the same. */
  readonly descriptor?: SourceDescriptor | undefined;
  open(): Promise<OpenedInput>;
}

/** A file that is being read. */
export interface OpenedInput {
  readonly source: Source;
  /** Tensors, where the file is a model that is known: chunks begin and end with them. */
  readonly tensors: readonly Extent[];
  /** Throws where the file is no longer the one that was opened. */
  checkUnchanged(): Promise<void>;
  close(): Promise<void>;
}

/** Bytes that come once, of unknown length: standard input. */
export interface StreamInput extends InputFacts {
  readonly kind: "stream";
  pieces(): AsyncIterable<Bytes>;
}

export type AddInput = DirectoryInput | FileInput | StreamInput;
