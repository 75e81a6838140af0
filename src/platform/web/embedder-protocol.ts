import type { Bytes } from "../../base/bytes.ts";
import type { ErrorJson } from "../../base/errors.ts";
import type { EmbedderOptions } from "../../embedding/embedder.ts";
import type { OpenHttpOptions } from "../../open.ts";

/** What an embedder's worker can be given to load: all of it can be cloned. */
export type ClonableInput = string | Blob | ArrayBuffer | Bytes;

/** The settings of an embedder that can be cloned. */
export interface ClonableOptions
  extends Pick<
    EmbedderOptions,
    "heads" | "kernel" | "precision" | "maxTokens" | "normalize" | "pooling" | "compat" | "vocabulary"
  > {
  readonly http?: Pick<OpenHttpOptions, "headers" | "allowOrigins"> | undefined;
}

/** What is known of an embedder once it is loaded. */
export interface EmbedderFacts {
  readonly dimension: number;
  readonly kernel: string;
  readonly precision: string;
  readonly maxTokens: number;
  readonly notes: readonly string[];
}

export type ToEmbedder =
  | { readonly type: "load"; readonly id: number; readonly input: ClonableInput; readonly options: ClonableOptions }
  | { readonly type: "embed"; readonly id: number; readonly texts: readonly string[] }
  | { readonly type: "cancel"; readonly id: number };

/** One answer to each "load" and "embed". */
export type FromEmbedder =
  | { readonly type: "loaded"; readonly id: number; readonly facts: EmbedderFacts }
  | { readonly type: "embedded"; readonly id: number; readonly vectors: readonly Float32Array<ArrayBuffer>[] }
  | { readonly type: "failed"; readonly id: number; readonly error: ErrorJson };
