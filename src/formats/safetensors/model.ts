import type { Source } from "../../bytes/source.ts";
import type { Finding } from "../../model/finding.ts";
import { Metadata } from "../../model/metadata.ts";
import { type Model, type Part, TensorIndex } from "../../model/model.ts";
import type { Tensor } from "../../model/tensor.ts";
import { type Header, MAX_CARRIED_TEXT } from "./header.ts";
import { LENGTH_BYTES } from "./index.ts";

/** One SafeTensors file of a model. */
export interface SafetensorsFile {
  readonly source: Source;
  readonly header: Header;
  /** Index into `model.parts`. */
  readonly part: number;
}

interface ModelParts {
  readonly parts: readonly Part[];
  /** The files with tensor data: one, or the shards in the order of their names' first appearance. */
  readonly files: readonly SafetensorsFile[];
  readonly tensors: readonly Tensor[];
  readonly metadata: Metadata;
  readonly facts: Model["facts"];
  readonly warnings: readonly Finding[];
  readonly unread?: Model["unread"];
}

/** An opened file or set. */
export class SafetensorsModel implements Model {
  readonly kind = "model";
  readonly format = "safetensors";
  readonly version = undefined;
  readonly parts: readonly Part[];
  readonly files: readonly SafetensorsFile[];
  readonly tensors: readonly Tensor[];
  readonly metadata: Metadata;
  readonly facts: Model["facts"];
  readonly warnings: readonly Finding[];
  readonly unread: Model["unread"];
  readonly #index: TensorIndex;

  constructor(contents: ModelParts) {
    this.parts = contents.parts;
    this.files = contents.files;
    this.tensors = contents.tensors;
    this.metadata = contents.metadata;
    this.facts = contents.facts;
    this.warnings = contents.warnings;
    this.unread = contents.unread;
    this.#index = new TensorIndex(contents.tensors, contents.parts[0]?.label ?? "safetensors");
  }

  tensor(name: string): Tensor {
    return this.#index.get(name);
  }

  async close(): Promise<void> {
    await Promise.all(this.parts.map((part) => part.source.close()));
  }
}

/** A model of one file. */
export function singleFileModel(source: Source, header: Header): SafetensorsModel {
  return new SafetensorsModel({
    parts: [{ label: source.label, byteLength: source.byteLength, source }],
    files: [{ source, header, part: 0 }],
    tensors: header.tensors,
    metadata: new Metadata(header.metadata),
    facts: [["header", `${header.dataStart - LENGTH_BYTES} bytes`]],
    warnings: [],
    // A header that is carried brings such fields along; `plan` tells where it cannot be used again.
    unread:
      header.further === undefined || header.text.length <= MAX_CARRIED_TEXT
        ? []
        : [{ name: header.further.name, reason: "fields of its entry that the format does not name" }],
  });
}
