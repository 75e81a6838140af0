import type { Bytes } from "../base/bytes.ts";
import type { Location } from "../base/errors.ts";
import type { Sink } from "../bytes/sink.ts";
import type { Engine } from "../primitives/engine.ts";
import type { Container } from "./container.ts";

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
