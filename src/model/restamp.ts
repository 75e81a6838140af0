import type { Bytes } from "../base/bytes.ts";
import type { LimitOverrides } from "../base/limits.ts";
import type { Source } from "../bytes/source.ts";
import type { Engine } from "../primitives/engine.ts";
import type { Container } from "./container.ts";
import type { Metadata } from "./metadata.ts";

/** A run of a file whose metadata was edited: new bytes, or bytes of the file as it is. */
export type RestampPiece =
  | { readonly kind: "bytes"; readonly bytes: Bytes }
  | { readonly kind: "copy"; readonly offset: number; readonly byteLength: number };

/** The one file that holds a model's metadata. */
export interface RestampTarget {
  readonly source: Source;
  /** As the file holds it, `tare.origin` and keys that describe files included. */
  readonly metadata: Metadata;
}

export interface RestampContext {
  readonly engine: Engine;
  readonly limits: LimitOverrides;
  readonly signal?: AbortSignal | undefined;
  /** Leaves a signature inside the file out, since an edit breaks it; without this such a file is refused. */
  readonly signature?: "drop" | undefined;
}

/** What a format does about edits of metadata that leave the tensors alone. */
export interface FormatRestamp {
  /** What values can be: JSON's, numbers of a width, or text alone. */
  readonly values: "json" | "typed" | "text";
  /** Keys by which readers find the tensors; editing them is refused. `tare.origin` always is. */
  readonly fixedKeys: readonly string[];
  /** Throws `unsupported/stamp.…` where the metadata of such a container cannot be edited. */
  target(container: Container): RestampTarget;
  /**
   * The file with other metadata, from its first byte to its last. Where every copied run keeps its offset, the file can
   * be edited in place. Digests of what changes are new; a digest over tensors that was wrong before stays wrong.
   */
  plan(container: Container, metadata: Metadata, context: RestampContext): Promise<readonly RestampPiece[]>;
}
