import type { Bytes } from "../../base/bytes.ts";
import type { Extent } from "../../bytes/extents.ts";
import type { Source, SourceDescriptor } from "../../bytes/source.ts";
import type { Model } from "../../model/model.ts";

/** What an entry keeps from its file. */
export interface InputFacts {
  /** The path in the vault. */
  readonly path: string;
  /** What errors call it: the path on disk. */
  readonly label: string;
  /** RFC 3339. */
  readonly mtime?: string | undefined;
  /** Permission bits. */
  readonly mode?: number | undefined;
}

/** A directory, made if it is missing. */
export interface DirectoryInput extends InputFacts {
  readonly kind: "directory";
}

/** A file whose length is known before it is read. */
export interface FileInput extends InputFacts {
  readonly kind: "file";
  readonly size: number;
  /** Lets another thread read the same bytes, or notice that they have changed. */
  readonly descriptor?: SourceDescriptor | undefined;
  open(): Promise<OpenedInput>;
}

/** A file that is being read. */
export interface OpenedInput {
  readonly source: Source;
  /** The tensors, if the file is a known model: chunks begin and end with them. */
  readonly tensors: readonly Extent[];
  /** Throws if the file is no longer the one that was opened. */
  checkUnchanged(): Promise<void>;
  close(): Promise<void>;
}

/** Bytes of unknown length that can be read only once: standard input, or what a command writes into a vault. */
export interface StreamInput extends InputFacts {
  readonly kind: "stream";
  pieces(): AsyncIterable<Bytes>;
  /**
   * Keeps the bytes until all are here. Called for bytes that begin like a model: its tensors decide where it is cut,
   * and only the whole file tells where they are. If absent, models are cut like any other file.
   */
  readonly keep?: ((pieces: AsyncIterable<Bytes>) => Promise<OpenedInput>) | undefined;
}

export type AddInput = DirectoryInput | FileInput | StreamInput;

/** Where the tensors of a model are in its first file, as stored; those in other files are left out. */
export function tensorExtents({ tensors, parts }: Model): Extent[] {
  const own = parts[0]?.label;
  return tensors
    .filter(({ file }) => file === undefined || file === own)
    .map(({ offset, storedByteLength }) => ({ offset, byteLength: storedByteLength }));
}
