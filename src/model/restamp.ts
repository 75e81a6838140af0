import type { Bytes } from "../base/bytes.ts";
import type { ErrorCatalog } from "../base/errors.ts";
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

/** Errors of editing metadata that formats throw. */
export const RESTAMP_ERRORS = {
  "unsupported/stamp.set": {
    what: "The metadata of a set of files cannot be edited through the set.",
    why: "Its index holds lengths and digests of the files, or several of them hold the metadata.",
    fix: "Make one file of it with `tare merge`, stamp that, and cut it again; or stamp one file by its own name.",
  },
  "unsupported/stamp.layout": {
    what: "The file is laid out in a way in which its metadata cannot be edited alone.",
    why: "Another program wrote it, or an older version of the format.",
    fix: "Write the file anew with `tare convert` or `tare upgrade`, then stamp that.",
  },
  "unsupported/stamp.signed": {
    what: "The file carries a signature, which any edit breaks.",
    why: "A signature covers the metadata, too.",
    fix: "Pass --unsign to leave the signature out, then sign again with `tare sign`.",
  },
  "unsupported/stamp.encrypted": {
    what: "The metadata of an encrypted file cannot be edited.",
    why: "It is authenticated together with the tensors, by a key that only the password opens.",
    fix: "Convert the file to one that is not encrypted, stamp that, and encrypt it again.",
  },
  "usage/stamp.container": {
    what: "A container was handed to the code of another format.",
    why: "Programs that use the library mixed up two of them.",
    fix: "Use planStamp with what openSource gave.",
  },
  "usage/stamp.key": {
    what: "The key cannot be edited, or not to such a value.",
    why: "Readers find or check the tensors by it.",
    fix: "Leave it as it is; `tare convert` changes the layout of a file.",
  },
} as const satisfies ErrorCatalog;
