import type { Bytes } from "../base/bytes.ts";
import type { Location } from "../base/errors.ts";
import type { LimitOverrides } from "../base/limits.ts";
import type { Sink } from "../bytes/sink.ts";
import type { Source } from "../bytes/source.ts";
import type { Engine } from "../primitives/engine.ts";
import type { Container } from "./archive.ts";
import type { Metadata } from "./metadata.ts";

/** An Ed25519 signature with the key that it claims. */
export interface Signature {
  /** 64 bytes. */
  readonly signature: Bytes;
  /** 32 bytes. Says nothing about trust: whoever can sign can put a key here. */
  readonly publicKey: Bytes;
}

/** A signature as a file carries it. */
export interface StoredSignature extends Signature {
  /** Where it stands. */
  readonly at: Location;
  /** What was signed, computed from the file as it is now. */
  readonly message: Bytes;
}

export interface SigningContext {
  readonly engine: Engine;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
}

/** Signs one short message; whoever gives it holds the key. */
export type Sign = (message: Bytes) => Promise<Signature>;

/** What a format does about signatures inside its files. Formats without it get a file of signatures beside theirs. */
export interface FormatSigning {
  /** "beside" for files of the format that have no room, such as one of its older layouts. */
  place(container: Container): "inside" | "beside";
  /** The signature that the file carries, its message computed by reading the whole file; undefined where it has none. */
  read(container: Container, context: SigningContext): Promise<StoredSignature | undefined>;
  /** Writes the whole file again with a signature, in place of any that it had. The caller commits the sink. */
  write(container: Container, sink: Sink, context: SigningContext & { readonly sign: Sign }): Promise<void>;
}

/** A run of a file whose metadata was edited: new bytes, or bytes of the file as it is. */
export type RestampPiece =
  | { readonly kind: "bytes"; readonly bytes: Bytes }
  | { readonly kind: "copy"; readonly offset: number; readonly byteLength: number };

/** The one file that holds a model's metadata. */
interface RestampTarget {
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
