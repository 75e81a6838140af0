import { FormatError } from "../../base/errors.ts";
import { byteLengthOf } from "../../model/dtype.ts";
import type { Loss } from "../../model/format.ts";
import type { CarriedTensor } from "../../model/origin.ts";
import type { Shape } from "../../model/shape.ts";
import type { Tensor } from "../../model/tensor.ts";
import { type Header, HeaderErrors, type HeaderTensor, METADATA_KEY } from "./header.ts";
import { dtypeRow } from "./layout.ts";

/**
 * The rules between tensors: sorted by range they begin at 0, touch without hole or overlap, and end exactly
 * where the file of `byteLength` ends. A tensor without bytes must stand on a boundary like any other.
 */
export function checkLayout(header: Header, byteLength: number): void {
  const { tensors, dataStart } = header;
  let position = dataStart;
  let i = 0;
  // The reference writer's files are in order already: nothing is sorted for them.
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

/** The same walk in the order of (begin, end); gives where the last tensor ends. */
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

/** A tensor as this format stores it. */
export interface StoredTensor extends HeaderTensor {
  readonly tensor: Tensor;
}

/** How every tensor of a content is stored. */
interface StoredTensors {
  /** In the order of the content. */
  readonly stored: readonly StoredTensor[];
  /** Those stored as plain bytes, with what they really are. */
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

/** Text that UTF-8 can hold has no half of a surrogate pair. */
export function isWellFormed(text: string): boolean {
  // The first test decides nearly always, and runs without decoding pairs.
  return !/[\ud800-\udfff]/.test(text) || !/\p{Surrogate}/u.test(text);
}

function nameProblem(name: string): string | undefined {
  if (name === METADATA_KEY) return `SafeTensors reserves the name "${METADATA_KEY}"`;
  return isWellFormed(name) ? undefined : "its name is no well-formed Unicode text";
}

/** Rows stay rows, so that taking some of them works on the bytes too; otherwise one run of bytes. */
function bytesShape({ shape, byteLength }: Tensor): Shape {
  const outer = shape.slice(0, -1);
  const rows = outer.reduce((product, dimension) => product * dimension, 1);
  const rowBytes = byteLength / rows;
  return outer.length > 0 && Number.isInteger(rowBytes) ? [...outer, rowBytes] : [byteLength];
}
