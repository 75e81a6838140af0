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
  resolve(name: string, options?: { readonly signal?: AbortSignal | undefined }): Promise<Source>;
}
