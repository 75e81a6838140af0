import { UsageError } from "../../base/errors.ts";
import type { Source } from "../../bytes/source.ts";
import type { Container } from "../../model/archive.ts";
import type { Finding } from "../../model/finding.ts";
import type { Metadata } from "../../model/metadata.ts";
import { type Model, type Part, TensorIndex } from "../../model/model.ts";
import type { Tensor } from "../../model/tensor.ts";
import type { AdrDetails } from "./adr.ts";
import type { EmbdLayout } from "./layout.ts";
import type { SpecDetails } from "./spec/read.ts";
import type { StreamDetails } from "./stream.ts";

/** A layout's own facts, for verify, sections and writing again. */
export type EmbdDetails = SpecDetails | StreamDetails | AdrDetails;

/** What opening has read, whatever the layout. */
export interface EmbdContents {
  readonly source: Source;
  readonly version: string;
  readonly metadata: Metadata;
  readonly tensors: readonly Tensor[];
  readonly warnings: readonly Finding[];
  readonly unread?: Model["unread"];
  /** Facts worth a line in `inspect`, without the layout itself. */
  readonly facts: Model["facts"];
  readonly details: EmbdDetails;
}

/** As `inspect` names the layouts. */
const LAYOUT_NAMES: Readonly<Record<EmbdLayout, string>> = {
  spec: "EMBD specification",
  stream: "stream, as cpp_embedder's converter writes it",
  adr: "ADR-002",
};

/** An opened EMBD file, of any layout. Owns its source. */
export class EmbdModel implements Model {
  readonly kind = "model";
  readonly format = "embd";
  readonly version: string;
  readonly parts: readonly Part[];
  readonly metadata: Metadata;
  readonly tensors: readonly Tensor[];
  readonly warnings: readonly Finding[];
  readonly unread: Model["unread"];
  readonly facts: Model["facts"];
  readonly details: EmbdDetails;
  readonly #index: TensorIndex;
  readonly #source: Source;

  constructor(contents: EmbdContents) {
    const { source, details } = contents;
    this.version = contents.version;
    this.parts = [{ label: source.label, byteLength: source.byteLength, source }];
    this.metadata = contents.metadata;
    this.tensors = contents.tensors;
    this.warnings = contents.warnings;
    this.unread = contents.unread;
    this.facts = [["layout", LAYOUT_NAMES[details.layout]], ...contents.facts];
    this.details = details;
    this.#index = new TensorIndex(contents.tensors, source.label);
    this.#source = source;
  }

  tensor(name: string): Tensor {
    return this.#index.get(name);
  }

  close(): Promise<void> {
    return this.#source.close();
  }
}

/** The container as a model of this format; another one is refused. */
export function embdModel(container: Container): EmbdModel {
  if (container instanceof EmbdModel) return container;
  const message = `Cannot treat a ${container.format} container as EMBD`;
  throw new UsageError("usage/embd.container", message, { source: container.parts[0]?.label ?? container.format });
}
