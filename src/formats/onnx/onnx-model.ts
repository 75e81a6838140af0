import type { Source } from "../../bytes/source.ts";
import type { Finding } from "../../model/finding.ts";
import type { Metadata } from "../../model/metadata.ts";
import { type Model, type Part, TensorIndex } from "../../model/model.ts";
import type { Tensor } from "../../model/tensor.ts";

/** What opening has found. */
export interface OnnxContents {
  readonly source: Source;
  /** Files with external data, in the order of their first use. */
  readonly external: readonly Source[];
  readonly irVersion: number;
  readonly metadata: Metadata;
  readonly tensors: readonly Tensor[];
  readonly warnings: readonly Finding[];
  readonly unread: NonNullable<Model["unread"]>;
  readonly facts: Model["facts"];
}

/** The weights of an opened ONNX model. */
export class OnnxModel implements Model {
  readonly kind = "model";
  readonly format = "onnx";
  readonly version: string;
  readonly parts: readonly Part[];
  readonly metadata: Metadata;
  readonly tensors: readonly Tensor[];
  readonly warnings: readonly Finding[];
  readonly unread: NonNullable<Model["unread"]>;
  readonly facts: Model["facts"];
  /** No other format has a place for it, and whoever converts an ONNX file wants the weights. */
  readonly staysBehind = ["the graph stays behind: only weights and metadata are converted"];
  readonly #index: TensorIndex;

  constructor(contents: OnnxContents) {
    const sources = [contents.source, ...contents.external];
    this.version = String(contents.irVersion);
    this.parts = sources.map((source) => ({ label: source.label, byteLength: source.byteLength, source }));
    this.metadata = contents.metadata;
    this.tensors = contents.tensors;
    this.warnings = contents.warnings;
    this.unread = contents.unread;
    this.facts = contents.facts;
    this.#index = new TensorIndex(contents.tensors, contents.source.label);
  }

  tensor(name: string): Tensor {
    return this.#index.get(name);
  }

  async close(): Promise<void> {
    await Promise.all(this.parts.map((part) => part.source.close()));
  }
}
