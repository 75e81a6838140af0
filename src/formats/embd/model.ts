import type { Bytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import type { Source } from "../../bytes/source.ts";
import type { Container } from "../../model/archive.ts";
import type { Shape } from "../../model/dtype.ts";
import type { Finding } from "../../model/finding.ts";
import type { Metadata } from "../../model/metadata.ts";
import { type Model, type Part, TensorIndex } from "../../model/model.ts";
import type { Tensor } from "../../model/tensor.ts";
import type { EmbdLayout } from "./layout.ts";
import type { FooterState } from "./spec/footer.ts";
import type { SpecHeader } from "./spec/header.ts";
import type { TextEntry } from "./spec/metadata.ts";
import type { IndexEntry } from "./spec/tensors.ts";
import type { DecodedVocabulary, VocabularySection } from "./spec/vocabulary.ts";

/** A file of the specification's layout. */
export interface SpecDetails extends SpecHeader, SpecContent {
  readonly layout: "spec";
  readonly source: Source;
  /** End of the names, which follow the descriptors. */
  readonly namesEnd: number;
  /** Everything before the tensor data, if opening has read it. */
  readonly front: Bytes | undefined;
  readonly footer: FooterState;
}

/** The contents of the sections before the data. */
export interface SpecContent {
  /** As the file has them: an origin may be split into several parts. */
  readonly entries: readonly TextEntry[];
  readonly vocabulary: DecodedVocabulary | undefined;
  /** In the order of the file. */
  readonly index: readonly IndexEntry[];
}

/** A tensor record: name and shape, then its float32 values. */
export interface StreamRecord {
  readonly name: string;
  readonly shape: Shape;
  /** Offset of name_len. */
  readonly offset: number;
  /** Offset of the values. */
  readonly dataOffset: number;
  readonly byteLength: number;
  readonly dtype: "F32";
}

/** How linear weights are stored: as in PyTorch, or transposed for multiplication from the left. */
export type Orientation = "out_in" | "in_out";

export interface StreamDetails {
  readonly layout: "stream";
  readonly source: Source;
  /** All of them, in the order of the file. */
  readonly records: readonly StreamRecord[];
  readonly vocabulary: StreamVocabulary;
  /** "in_out" if the matrices of the encoder are shown transposed. */
  readonly orientation: Orientation | undefined;
}

/** The list at the end of a stream. */
export interface StreamVocabulary extends VocabularySection {
  readonly offset: number;
  /** End of the last token. */
  readonly end: number;
}

/** An entry of the table, with its final place in the file. */
export interface AdrEntry {
  readonly name: string;
  readonly dtype: "F32";
  readonly shape: Shape;
  /** From the beginning of the file. */
  readonly dataOffset: number;
  readonly byteLength: number;
}

export interface AdrDetails {
  readonly layout: "adr";
  readonly source: Source;
  readonly headerBytes: number;
  /** All of them, in the order of the file. */
  readonly entries: readonly AdrEntry[];
  /** What the stored offsets count from. */
  readonly base: "file" | "data";
}

/** The facts of each layout, for verify, sections and writing again. */
export type EmbdDetails = SpecDetails | StreamDetails | AdrDetails;

/** The results of opening, for any layout. */
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

/** The names of the layouts in `inspect`. */
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

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** The container as a model of this format; refuses other containers. */
export function embdModel(container: Container): EmbdModel {
  if (container instanceof EmbdModel) return container;
  const message = `Cannot treat a ${container.format} container as EMBD`;
  throw new UsageError("usage/embd.container", message, { source: container.parts[0]?.label ?? container.format });
}
