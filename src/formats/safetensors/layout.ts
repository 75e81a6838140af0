import { FormatError } from "../../base/errors.ts";
import type { Tensor } from "../../model/tensor.ts";
import type { Header } from "./header.ts";
import { HeaderErrors } from "./header-errors.ts";

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
