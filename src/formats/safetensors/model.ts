import { FormatError } from "../../base/errors.ts";
import { isWellFormed } from "../../base/text.ts";
import type { Source } from "../../bytes/source.ts";
import { cutShortFinding } from "../../model/cut-short.ts";
import type { Shape } from "../../model/dtype.ts";
import { byteLengthOf } from "../../model/dtype.ts";
import type { Finding, Loss } from "../../model/finding.ts";
import { Metadata } from "../../model/metadata.ts";
import { type Model, type Part, TensorIndex } from "../../model/model.ts";
import { type CarriedTensor, MAX_CARRIED_TEXT } from "../../model/origin/origin.ts";
import type { Tensor } from "../../model/tensor.ts";
import { HeaderErrors } from "./general-entry.ts";
import { type Header, type HeaderTensor, METADATA_KEY } from "./header.ts";
import { LENGTH_BYTES } from "./index.ts";
import { dtypeRow } from "./layout.ts";

/** One SafeTensors file of a model. */
export interface SafetensorsFile {
  readonly source: Source;
  readonly header: Header;
  /** Index into `model.parts`. */
  readonly part: number;
  /** Present if the file ends before its last tensor. */
  readonly fault?: FormatError | undefined;
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
  readonly cutShort: Finding | undefined;
  readonly unread: Model["unread"];
  readonly #index: TensorIndex;

  constructor(contents: ModelParts) {
    this.parts = contents.parts;
    this.files = contents.files;
    this.tensors = contents.tensors;
    this.metadata = contents.metadata;
    this.facts = contents.facts;
    const cut = contents.files.flatMap(({ source, header, fault }) => {
      return fault === undefined ? [] : [{ source, fault, tensors: header.tensors }];
    });
    this.cutShort = cutShortFinding(cut, contents.tensors.length);
    this.warnings = this.cutShort === undefined ? contents.warnings : [this.cutShort, ...contents.warnings];
    this.unread = contents.unread;
    this.#index = new TensorIndex(contents.tensors, contents.parts[0]?.label ?? "safetensors");
  }

  tensor(name: string): Tensor {
    return this.#index.get(name);
  }

  async close(): Promise<void> {
    await Promise.all(this.parts.map((part) => part.source.close()));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** A model of one file. */
export function singleFileModel(file: SafetensorsFile): SafetensorsModel {
  const { source, header } = file;
  return new SafetensorsModel({
    parts: [{ label: source.label, byteLength: source.byteLength, source }],
    files: [file],
    tensors: header.tensors,
    metadata: new Metadata(header.metadata),
    facts: [["header", `${header.dataStart - LENGTH_BYTES} bytes`]],
    warnings: [],
    // A carried header keeps such fields; `plan` reports it if the header cannot be used again.
    unread:
      header.further === undefined || header.text.length <= MAX_CARRIED_TEXT
        ? []
        : [{ name: header.further.name, reason: "fields of its entry that the format does not name" }],
  });
}

/**
 * Checks the rules between tensors: sorted by range they begin at 0, are contiguous without overlap, and end exactly at
 * the end of the file of `byteLength`. A tensor without bytes must be on a boundary like any other.
 */
export function checkLayout(header: Header, byteLength: number): void {
  const { tensors, dataStart } = header;
  let position = dataStart;
  let i = 0;
  // The files of the reference writer are already in order, so nothing is sorted for them.
  for (; i < tensors.length; i++) {
    const tensor = tensors[i] as Tensor;
    if (tensor.offset !== position) break;
    position += tensor.byteLength;
  }
  if (i < tensors.length) position = checkUnordered(header);
  if (position > byteLength) throw truncated(header, position, byteLength);
  if (position < byteLength) {
    const message = `Cannot accept SafeTensors file: must end with its tensors at ${position}, found ${byteLength - position} bytes more`;
    const at = { source: header.scanner.place.source, offset: position, byteLength: byteLength - position };
    const hint = `The format allows none; where you know that they do not belong there, cut a copy of the file at ${position} bytes`;
    throw new FormatError("format/safetensors.trailing-bytes", message, at, { hint });
  }
}

/** The same walk in the order of (begin, end); gives the end of the last tensor. */
function checkUnordered(header: Header): number {
  const { tensors, dataStart } = header;
  const order = tensors.map((_, i) => i).sort((a, b) => compareRanges(tensors[a], tensors[b]));
  let position = dataStart;
  let before: Tensor | undefined;
  for (const i of order) {
    const tensor = tensors[i] as Tensor;
    if (tensor.offset !== position) throw misplaced(header, i, { position, before });
    position += tensor.byteLength;
    before = tensor;
  }
  return position;
}

function compareRanges(a: Tensor | undefined, b: Tensor | undefined): number {
  if (a === undefined || b === undefined) return 0;
  return a.offset - b.offset || a.byteLength - b.byteLength;
}

interface Expected {
  readonly position: number;
  readonly before: Tensor | undefined;
}

function misplaced(header: Header, index: number, { position, before }: Expected): FormatError {
  const tensor = header.tensors[index] as Tensor;
  const { dataStart } = header;
  const at = new HeaderErrors(header.scanner).at(tensor.name, header.keyIndexes[index] ?? 0, "data_offsets");
  const begin = tensor.offset - dataStart;
  const wanted = position - dataStart;
  const neighbour = before === undefined ? "the first tensor" : `the tensor after ${JSON.stringify(before.name)}`;
  if (begin > wanted) {
    const message = `Cannot accept a hole in SafeTensors data: ${neighbour} must begin at ${wanted}, found ${begin}`;
    return new FormatError("format/safetensors.hole", message, at);
  }
  const message = `Cannot accept overlapping SafeTensors data: ${neighbour} must begin at ${wanted}, found ${begin}`;
  return new FormatError("format/safetensors.overlap", message, at);
}

function truncated(header: Header, end: number, byteLength: number): FormatError {
  const message = `Cannot accept SafeTensors file: its tensors need ${end} bytes, found ${byteLength}`;
  const at = { source: header.scanner.place.source, offset: byteLength };
  return new FormatError("format/safetensors.truncated", message, at, {
    hint: "The file was cut short: download or copy it again",
    neededBytes: end,
  });
}

/** A tensor in the form in which this format stores it. */
export interface StoredTensor extends HeaderTensor {
  readonly tensor: Tensor;
}

/** The stored form of every tensor of a content. */
interface StoredTensors {
  /** In the order of the content. */
  readonly stored: readonly StoredTensor[];
  /** Those stored as plain bytes, with their real types and shapes. */
  readonly carried: readonly CarriedTensor[];
  readonly losses: readonly Loss[];
}

/** Decides how each tensor is stored: as it is, as bytes, or not at all. */
export function storeTensors(tensors: readonly Tensor[]): StoredTensors {
  const stored: StoredTensor[] = [];
  const carried: CarriedTensor[] = [];
  const losses: Loss[] = [];
  const names = new Set<string>();
  for (const tensor of tensors) {
    const { name, byteLength } = tensor;
    const reason = names.has(name) ? "another tensor has the same name" : nameProblem(name);
    if (reason !== undefined) {
      losses.push({ name, reason });
      continue;
    }
    names.add(name);
    const row = dtypeRow(tensor.dtype);
    if (row !== undefined && byteLengthOf(row.dtype, tensor.shape, { source: name }) === byteLength) {
      stored.push({ name, dtype: row.dtype, shape: tensor.shape, byteLength, tensor });
    } else {
      stored.push({ name, dtype: "U8", shape: bytesShape(tensor), byteLength, tensor });
      carried.push([name, tensor.dtype, tensor.shape]);
    }
  }
  return { stored, carried, losses };
}

function nameProblem(name: string): string | undefined {
  if (name === METADATA_KEY) return `SafeTensors reserves the name "${METADATA_KEY}"`;
  return isWellFormed(name) ? undefined : "its name is no well-formed Unicode text";
}

/** Keeps the rows, so that selecting rows works on the bytes too; otherwise one run of bytes. */
function bytesShape({ shape, byteLength }: Tensor): Shape {
  const outer = shape.slice(0, -1);
  const rows = outer.reduce((product, dimension) => product * dimension, 1);
  const rowBytes = byteLength / rows;
  return outer.length > 0 && Number.isInteger(rowBytes) ? [...outer, rowBytes] : [byteLength];
}
