import type { Bytes } from "../base/bytes.ts";
import type { Location } from "../base/errors.ts";
import type { LimitOverrides } from "../base/limits.ts";
import type { Sink } from "../bytes/sink.ts";
import type { Source } from "../bytes/source.ts";
import type { Engine } from "../primitives/engine.ts";
import type { Container } from "./archive.ts";
import type { Loss } from "./finding.ts";
import type { Metadata } from "./metadata.ts";

/** An Ed25519 signature with the key that it claims. */
export interface Signature {
  /** 64 bytes. */
  readonly signature: Bytes;
  /** 32 bytes. Says nothing about trust: a signer can put any key here. */
  readonly publicKey: Bytes;
}

/** A signature as a file carries it. */
export interface StoredSignature extends Signature {
  /** The place of the signature in the file. */
  readonly at: Location;
  /** The bytes that were signed, computed from the file as it is now. */
  readonly message: Bytes;
}

export interface SigningContext {
  readonly engine: Engine;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
}

/** Signs one short message. The caller that passes this function holds the key. */
export type Sign = (message: Bytes) => Promise<Signature>;

/** How a format keeps signatures inside its files. Formats without it get a file of signatures next to their own. */
export interface FormatSigning {
  /** "beside" for files of the format that have no room for a signature, such as those of an older layout. */
  place(container: Container): "inside" | "beside";
  /** The signature that the file carries; undefined if it has none. Computes the message by reading the whole file. */
  read(container: Container, context: SigningContext): Promise<StoredSignature | undefined>;
  /**
   * Writes the whole file again with a signature, in place of any signature that it had. The caller commits the sink.
   */
  write(container: Container, sink: Sink, context: SigningContext & { readonly sign: Sign }): Promise<void>;
}

/** A run of a file whose metadata was edited: new bytes, or bytes of the file as it is. */
export type RestampPiece =
  | { readonly kind: "bytes"; readonly bytes: Bytes }
  | { readonly kind: "copy"; readonly offset: number; readonly byteLength: number };

/** The one file that holds a model's metadata. */
interface RestampTarget {
  readonly source: Source;
  /** As the file holds it, including `tare.origin` and keys that describe files. */
  readonly metadata: Metadata;
  /** What the file holds of metadata beside that, and a new text of it would not. */
  readonly unread?: readonly Loss[];
}

export interface RestampContext {
  readonly engine: Engine;
  readonly limits: LimitOverrides;
  readonly signal?: AbortSignal | undefined;
  /** Leaves out a signature inside the file, because an edit breaks it. Without this option such a file is refused. */
  readonly signature?: "drop" | undefined;
}

/** How a format edits metadata and leaves the tensors alone. */
export interface FormatRestamp {
  /** The values that the format can hold: JSON's, numbers of a fixed width, or only text. */
  readonly values: "json" | "typed" | "text";
  /** Keys that readers need to find the tensors. Editing them is refused, and so is editing `tare.origin`. */
  readonly fixedKeys: readonly string[];
  /** Throws `unsupported/stamp.…` if the metadata of this container cannot be edited. */
  target(container: Container): RestampTarget;
  /**
   * The file with other metadata, from its first byte to its last. If every copied run keeps its offset, the file can
   * be edited in place. Digests of changed bytes are computed again; a digest over tensors that was wrong before stays
   * wrong.
   */
  plan(container: Container, metadata: Metadata, context: RestampContext): Promise<readonly RestampPiece[]>;
}
