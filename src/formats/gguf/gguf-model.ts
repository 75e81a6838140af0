import { UsageError } from "../../base/errors.ts";
import { sliceSource } from "../../bytes/slice.ts";
import type { Source } from "../../bytes/source.ts";
import type { Container } from "../../model/container.ts";
import type { Finding } from "../../model/finding.ts";
import type { Loss } from "../../model/format.ts";
import type { Metadata } from "../../model/metadata.ts";
import { fingerprint } from "../../model/metadata-json.ts";
import { type Model, type Part, TensorIndex } from "../../model/model.ts";
import { Tensor, type TensorReader } from "../../model/tensor.ts";
import { ALIGNMENT_KEY, SPLIT_KEYS } from "./layout.ts";
import type { GgufHeader } from "./read-header.ts";
import { swappedSource } from "./swapped-source.ts";

/** One file with its header read. */
export interface GgufFile {
  readonly source: Source;
  readonly header: GgufHeader;
}

export interface GgufContent {
  /** In order; the first one has the metadata. */
  readonly files: readonly [GgufFile, ...GgufFile[]];
  /** What describes the model, without the keys that describe its files. */
  readonly metadata: Metadata;
  readonly warnings: readonly Finding[];
}

/** An opened GGUF file, or a set of split files as one model. Owns the sources. */
export class GgufModel implements Model {
  readonly kind = "model";
  readonly format = "gguf";
  readonly version: string;
  readonly files: readonly [GgufFile, ...GgufFile[]];
  readonly parts: readonly Part[];
  readonly metadata: Metadata;
  readonly tensors: readonly Tensor[];
  readonly warnings: readonly Finding[];
  readonly facts: readonly (readonly [string, string])[];
  readonly #index: TensorIndex;

  constructor({ files, metadata, warnings }: GgufContent) {
    const [first] = files;
    this.files = files;
    this.version = String(first.header.version);
    this.parts = files.map(({ source }) => ({ label: source.label, byteLength: source.byteLength, source }));
    this.metadata = metadata;
    this.tensors = files.flatMap((file) => fileTensors(file, files.length > 1 ? file.source.label : undefined));
    this.warnings = [...files.flatMap(({ header }) => header.warnings), ...warnings];
    this.facts = factsOf(files);
    this.#index = new TensorIndex(this.tensors, first.source.label);
  }

  /** Bytes after the padding of the last tensor, and metadata of parts that the first part does not have. */
  get unread(): readonly Loss[] {
    const [first, ...others] = this.files;
    return [...this.files.flatMap(trailingLosses), ...others.flatMap((file) => partMetadataLosses(file, first))];
  }

  tensor(name: string): Tensor {
    return this.#index.get(name);
  }

  async close(): Promise<void> {
    await Promise.all(this.files.map(({ source }) => source.close()));
  }
}

function trailingLosses({ source, header }: GgufFile): Loss[] {
  const { paddedEnd } = header.layout;
  const byteLength = source.byteLength - paddedEnd;
  if (byteLength <= 0) return [];
  const at = { source: source.label, offset: paddedEnd, byteLength };
  const reason = `they follow the last tensor of ${source.label}`;
  return [{ name: `${byteLength} bytes from ${paddedEnd}`, reason, at }];
}

/** Only the first part's metadata counts; others may repeat it. */
function partMetadataLosses({ source, header }: GgufFile, first: GgufFile): Loss[] {
  return header.metadata.entries
    .filter(({ key, value }) => {
      if (key === ALIGNMENT_KEY || (SPLIT_KEYS as readonly string[]).includes(key)) return false;
      const same = first.header.metadata.get(key);
      return same === undefined || fingerprint(same) !== fingerprint(value);
    })
    .map(({ key }) => ({ name: key, reason: `metadata of ${source.label} that the first part does not have` }));
}

function fileTensors({ source, header }: GgufFile, label: string | undefined): Tensor[] {
  const { dataStart, byteOrder, infos } = header;
  const stored = (tensor: Tensor): Source => sliceSource(source, tensor.offset, tensor.byteLength);
  const reader: TensorReader =
    byteOrder === "little" ? { source: stored } : { source: (tensor) => swappedSource(stored(tensor), tensor) };
  return infos.map(({ name, dtype, shape, byteLength, offset }) => {
    return new Tensor({ name, dtype, shape, byteLength, offset: dataStart + offset, file: label }, reader);
  });
}

function factsOf([{ header }, ...others]: readonly [GgufFile, ...GgufFile[]]): (readonly [string, string])[] {
  const facts: (readonly [string, string])[] = [["alignment", `${header.alignment} bytes`]];
  if (header.byteOrder === "big") facts.push(["byte order", "big-endian"]);
  if (others.length > 0) facts.push(["parts", String(others.length + 1)]);
  return facts;
}

/** The container as a model of this format; another one is refused. */
export function ggufModel(container: Container): GgufModel {
  if (container instanceof GgufModel) return container;
  const message = `Cannot treat a ${container.format} container as GGUF`;
  throw new UsageError("usage/gguf.container", message, { source: container.parts[0]?.label ?? container.format });
}
