import type { Bytes } from "../base/bytes.ts";
import type { Source } from "./source.ts";

/**
 * Opens the siblings of a file by relative name: shards, parts, a tokenizer beside the weights. Never
 * reaches outside its root: names that are absolute, contain "..", NUL or a backslash, or lead elsewhere
 * through a link are refused with `source/resolver.escape`.
 */
export interface Resolver {
  /** The name of the file the resolver belongs to, without its folder: "model-00001-of-00003.gguf". */
  readonly name: string;
  /** Rejects with `source/not-found` where there is no such sibling. */
  resolve(name: string, options?: ResolveOptions): Promise<Source>;
  /**
   * Opens a full http(s) address that the file names. Rejects with `source/resolver.origin` where it leads to another
   * origin than the file's own and that was not allowed. Absent where there is no network.
   */
  resolveUrl?(url: string, options?: ResolveOptions): Promise<Source>;
  /**
   * Present where the file stands in a folder for files of its kind, "onnx/model.onnx": reaches what stands beside that
   * folder. Only for names that we choose ourselves, such as "config.json"; never for one that a file gives.
   */
  readonly above?: Resolver | undefined;
}

/** Folders that models keep their weights in, apart from the configuration: Hugging Face's custom for ONNX exports. */
export function isFolderOfKind(folderName: string): boolean {
  return folderName === "onnx";
}

export interface ResolveOptions {
  readonly signal?: AbortSignal | undefined;
  /** What the index says about the file: lets a cache answer without asking the server. */
  readonly pinned?: PinnedFile | undefined;
  /** The address or path of the index. Resolvers fill it in: what one index states says nothing about another's files. */
  readonly namedBy?: string | undefined;
  /** Judges where redirects lead, by throwing. Resolvers fill it in for addresses that an index gives in full. */
  readonly onRedirect?: ((url: string) => void) | undefined;
}

/** What an index states about a file. It is a claim until the whole file was hashed. */
export interface PinnedFile {
  readonly byteLength: number;
  /** 64 lower-case hex digits over the whole file. */
  readonly sha256: string;
  /**
   * Present where the file is wanted whole: rejects where the bytes are not the pinned ones. Whoever keeps bytes calls it
   * before a byte is kept or handed out. Resolvers without a store may leave it to the caller.
   */
  readonly prove?: ((whole: Bytes) => Promise<void>) | undefined;
}
