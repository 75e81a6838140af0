import type { Bytes } from "../../base/bytes.ts";
import { FormatError, type Location } from "../../base/errors.ts";
import { alignUp, checkedAdd } from "../../base/integers.ts";
import { checkLimit } from "../../base/limits.ts";
import { decodeUtf8, encodeUtf8, printable } from "../../base/text.ts";
import type { Turns } from "../../base/turns.ts";
import { rejectOverlaps } from "../../bytes/extents.ts";
import { byteLengthOf, type DType, dtypeFacts, equalShapes, type Shape } from "../../model/dtype.ts";
import type { Finding, Loss } from "../../model/finding.ts";
import type { OpenContext } from "../../model/format.ts";
import type { CarriedTensor } from "../../model/origin/origin.ts";
import type { Tensor } from "../../model/tensor.ts";
import { tensorType, tensorTypeId } from "./layout.ts";
import type { GgufLimits } from "./limits.ts";
import type { Fillable } from "./metadata.ts";

/** One row of the tensor table. */
export interface TensorInfo {
  readonly name: string;
  readonly nameBytes: number;
  readonly dtype: DType;
  /** Outermost first; the file has the reverse order. */
  readonly shape: Shape;
  /** Relative to the start of the data. */
  readonly offset: number;
  readonly byteLength: number;
  /** Offset of the row in the file. */
  readonly infoOffset: number;
}

interface TensorInfoRange {
  readonly offset: number;
  readonly count: number;
  readonly alignment: number;
}

/** Reads the tensor table; the caller has checked the count against the file's size. */
export async function readTensorInfos(
  window: Fillable,
  range: TensorInfoRange,
  limits: GgufLimits,
  turns: Turns,
): Promise<{ readonly infos: readonly TensorInfo[]; readonly end: number }> {
  const infos: TensorInfo[] = [];
  const names = new Set<string>();
  let offset = range.offset;
  for (let i = 0; i < range.count; i++) {
    const path = `tensor_infos[${i}]`;
    const rankAt = await readNameExtent(window, offset, path, limits);
    const { rank, end } = await readRank(window, rankAt, path, limits);
    const info = decodeInfo(window, { offset, rankAt, rank, path, alignment: range.alignment });
    if (names.has(info.name)) throw duplicateName(window, info.name, offset, path);
    names.add(info.name);
    infos.push(info);
    offset = end;
    const turn = turns.step();
    if (turn !== undefined) await turn;
  }
  return { infos, end: offset };
}

/** Returns the end of the name, once its bytes are here. */
async function readNameExtent(window: Fillable, offset: number, path: string, limits: GgufLimits): Promise<number> {
  const lengthPath = (): string => `${path}.name.len`;
  if (offset + 8 > window.filled) await window.fill(offset, 8, lengthPath);
  const length = window.u64(offset, lengthPath);
  window.checkRoom(offset + 8, length, lengthPath);
  checkLimit(
    length,
    limits.nameBytes,
    "a tensor name of this many bytes",
    "limit/gguf.name-bytes",
    window.at(offset, lengthPath()),
  );
  const end = offset + 8 + length;
  if (end > window.filled) await window.fill(offset + 8, length, () => `${path}.name`);
  return end;
}

/** Returns the rank, once the rest of the row is here: dimensions, type and offset. */
async function readRank(
  window: Fillable,
  rankAt: number,
  path: string,
  limits: GgufLimits,
): Promise<{ readonly rank: number; readonly end: number }> {
  if (rankAt + 4 > window.filled) await window.fill(rankAt, 4, () => `${path}.n_dimensions`);
  const rank = window.u32(rankAt);
  if (rank > limits.dimensions) {
    const message = `Cannot read GGUF tensor: ${path}.n_dimensions must be at most ${limits.dimensions}, found ${rank}`;
    throw new FormatError("format/gguf.rank", message, window.at(rankAt, `${path}.n_dimensions`));
  }
  const rest = 8 * rank + 4 + 8;
  const end = rankAt + 4 + rest;
  if (end > window.filled) await window.fill(rankAt + 4, rest, () => `${path}.dimensions`);
  return { rank, end };
}

interface InfoPlace {
  readonly offset: number;
  readonly rankAt: number;
  readonly rank: number;
  readonly path: string;
  readonly alignment: number;
}

function decodeInfo(window: Fillable, { offset, rankAt, rank, path, alignment }: InfoPlace): TensorInfo {
  const name = decodeUtf8(window.slice(offset + 8, rankAt));
  if (name === undefined) {
    const message = `Cannot read GGUF tensor: ${path}.name must be valid UTF-8`;
    throw new FormatError("format/gguf.name-utf8", message, window.at(offset + 8, `${path}.name`));
  }
  const shape: number[] = [];
  // ggml counts dimensions from the innermost one, so the row is read backwards.
  for (let d = rank - 1; d >= 0; d--) shape.push(window.u64(rankAt + 4 + 8 * d, () => `${path}.dimensions[${d}]`));
  const typeAt = rankAt + 4 + 8 * rank;
  const dtype = tensorType(window.u32(typeAt), printable(name), () => window.at(typeAt, `${path}.type`));
  const dataOffset = window.u64(typeAt + 4, () => `${path}.offset`);
  if (dataOffset % alignment !== 0) {
    const message = `Cannot read GGUF tensor "${printable(name)}": offset must be a multiple of ${alignment}, found ${dataOffset}`;
    throw new FormatError("format/gguf.offset-alignment", message, window.at(typeAt + 4, `${path}.offset`));
  }
  // Every type with a GGUF id has a size that follows from the shape.
  const byteLength = byteLengthOf(dtype, shape, window.at(rankAt + 4, `${path}.dimensions`)) ?? 0;
  return { name, nameBytes: rankAt - offset - 8, dtype, shape, offset: dataOffset, byteLength, infoOffset: offset };
}

function duplicateName(window: Fillable, name: string, offset: number, path: string): FormatError {
  const message = `Cannot read GGUF tensors: the name "${printable(name)}" occurs twice`;
  return new FormatError("format/gguf.duplicate-name", message, window.at(offset, `${path}.name`));
}

/** One warning for all names that llama.cpp would refuse. */
export function nameWarnings(infos: readonly TensorInfo[], label: string): Finding[] {
  // ggml's GGML_MAX_NAME is 64 with the terminating NUL.
  const long = infos.filter(({ nameBytes }) => nameBytes > 63);
  const [first] = long;
  if (first === undefined) return [];
  const message = `${long.length === 1 ? "1 tensor name is" : `${long.length} tensor names are`} longer than 63 bytes, which llama.cpp refuses; the first is "${printable(first.name)}"`;
  const at = { source: label, offset: first.infoOffset, path: "tensor_infos" };
  return [{ severity: "warning", code: "format/gguf.long-name", message, at, name: first.name }];
}

/** A row of zeros is a tensor without a name: valid, and what a download leaves that did not get so far. */
export function zeroWarnings(header: Bytes, infos: readonly TensorInfo[], label: string): Finding[] {
  const last = infos.at(-1);
  if (last === undefined || last.nameBytes > 0) return [];
  let start = header.byteLength;
  while (start > 0 && header[start - 1] === 0) start--;
  if (start > last.infoOffset) return [];
  const message = `The header is zero from byte ${start} on, so that the last tensor has no name: the download was interrupted`;
  const at = { source: label, offset: start, path: "tensor_infos" };
  return [{ severity: "warning", code: "format/gguf.zeros", message, at }];
}

/** A tensor in the form in which GGUF stores it. */
export interface StoredTensor {
  readonly tensor: Tensor;
  readonly typeId: number;
  /** Outermost first. */
  readonly shape: Shape;
}

interface TensorPlan {
  readonly stored: readonly StoredTensor[];
  /** The real types and shapes of tensors that GGUF cannot express. */
  readonly carried: readonly CarriedTensor[];
  /** Tensors whose type or rank GGUF cannot express, so only tare can restore them. */
  readonly disguised: readonly Loss[];
  /** Tensors whose names GGUF cannot hold. */
  readonly leftOut: readonly Loss[];
}

/** GGML_MAX_NAME is 64 with the terminating NUL. */
const MAX_NAME_BYTES = 63;
/** GGML_MAX_DIMS. */
const MAX_RANK = 4;

const SIGNED_BY_BITS: Readonly<Record<number, DType>> = { 8: "I8", 16: "I16", 32: "I32", 64: "I64" };

/** Decides how each tensor is stored. Nothing is read; bytes are always copied unchanged. */
export function planTensors(tensors: readonly Tensor[]): TensorPlan {
  const stored: StoredTensor[] = [];
  const carried: CarriedTensor[] = [];
  const disguised: Loss[] = [];
  const leftOut: Loss[] = [];
  const names = new Set<string>();
  for (const tensor of tensors) {
    const { name, dtype, shape } = tensor;
    const unnameable = names.has(name) ? "another tensor has the same name" : nameFault(name);
    names.add(name);
    if (unnameable !== undefined) {
      leftOut.push({ name, reason: unnameable });
      continue;
    }
    const held = hold(tensor);
    stored.push(held);
    if (tensorTypeId(dtype) === held.typeId && equalShapes(shape, held.shape)) continue;
    carried.push([name, dtype, shape]);
    disguised.push({ name, reason: lossReason(tensor) });
  }
  return { stored, carried, disguised, leftOut };
}

function nameFault(name: string): string | undefined {
  // A lone surrogate has no UTF-8 form: writing it would change the name.
  if (/\p{Surrogate}/u.test(name)) return "the name is not valid Unicode, so the tensor is left out";
  const byteLength = name.length * 3 <= MAX_NAME_BYTES ? 0 : encodeUtf8(name).byteLength;
  if (byteLength <= MAX_NAME_BYTES) return undefined;
  return `the name has ${byteLength} bytes, llama.cpp reads at most ${MAX_NAME_BYTES}, so the tensor is left out`;
}

function hold(tensor: Tensor): StoredTensor {
  const { dtype, shape, byteLength } = tensor;
  const own = isUneven(tensor) ? undefined : tensorTypeId(dtype);
  if (own !== undefined) return { tensor, typeId: own, shape: mergeLeading(shape) };
  const facts = dtypeFacts(dtype);
  const bits = facts.layout === "plain" && facts.family !== "complex" ? facts.bits : undefined;
  const signed = bits === undefined ? undefined : SIGNED_BY_BITS[bits];
  if (signed !== undefined) return { tensor, typeId: idOf(signed), shape: mergeLeading(shape) };
  return { tensor, typeId: idOf("I8"), shape: [byteLength] };
}

/** Other formats let a row end inside a block. ggml has no such tensor. */
function isUneven({ dtype, shape }: Tensor): boolean {
  const facts = dtypeFacts(dtype);
  return facts.layout === "block" && (shape.at(-1) ?? 1) % facts.blockElements !== 0;
}

function idOf(dtype: DType): number {
  return tensorTypeId(dtype) ?? 0;
}

/** Merges the outer dimensions into one, so that rows and blocks stay the same. */
function mergeLeading(shape: Shape): Shape {
  if (shape.length <= MAX_RANK) return shape;
  const outer = shape.slice(0, shape.length - MAX_RANK + 1).reduce((product, dimension) => product * dimension, 1);
  return [outer, ...shape.slice(shape.length - MAX_RANK + 1)];
}

function lossReason(tensor: Tensor): string {
  const { dtype, shape } = tensor;
  if (isUneven(tensor))
    return `its rows of ${shape.at(-1)} elements are no whole ${dtype} blocks: only its bytes can be kept, under a signed integer type`;
  if (tensorTypeId(dtype) === undefined)
    return `GGUF has no type ${dtype}: only its bytes can be kept, under a signed integer type`;
  return `GGUF holds at most ${MAX_RANK} dimensions, this has ${shape.length}: the outer ones become one`;
}

/** The layout of the tensors after the header. */
export interface DataLayout {
  /** True if each tensor begins at the aligned end of the one before, as llama.cpp requires. */
  readonly packed: boolean;
  /** The end of the last tensor; the end of the header if there is none. */
  readonly dataEnd: number;
  /** The end of a standard file: `dataEnd`, padded. */
  readonly paddedEnd: number;
  /** Present if the file ends before its last tensor. */
  readonly fault?: FormatError | undefined;
  readonly warnings: readonly Finding[];
}

interface DataPlace {
  readonly label: string;
  readonly headerEnd: number;
  readonly dataStart: number;
  readonly alignment: number;
  readonly fileBytes: number;
  readonly cutShort?: OpenContext["cutShort"];
}

/** Refuses tensors that share bytes or reach beyond the end; warns about other unusual layouts. */
export function checkDataLayout(infos: readonly TensorInfo[], place: DataPlace): DataLayout {
  const { label, headerEnd, dataStart, alignment, fileBytes } = place;
  const at: Location = { source: label, path: "tensor_infos" };
  let expected = 0;
  let end = 0;
  let strays = 0;
  let stray: TensorInfo | undefined;
  for (const info of infos) {
    if (info.offset !== expected) {
      strays++;
      stray ??= info;
    }
    const infoAt: Location = { ...at, offset: info.infoOffset };
    const tensorEnd = checkedAdd(info.offset, info.byteLength, infoAt);
    expected = alignUp(tensorEnd, alignment, infoAt);
    end = Math.max(end, tensorEnd);
  }
  const dataEnd = infos.length === 0 ? headerEnd : checkedAdd(dataStart, end, { ...at, offset: headerEnd });
  const fault = dataEnd > fileBytes ? truncated(infos, place, dataEnd) : undefined;
  if (fault !== undefined && place.cutShort !== "shown") throw fault;
  if (strays > 0) {
    const extents = infos.map(({ name, offset, byteLength }) => ({ name, offset: dataStart + offset, byteLength }));
    rejectOverlaps(extents, ({ name }) => `"${printable(name)}"`, "format/gguf.overlap", at);
  }
  const paddedEnd = alignUp(dataEnd, alignment, { ...at, offset: headerEnd });
  const tail = fault === undefined ? tailWarnings(infos, place, dataEnd, paddedEnd) : [];
  return {
    packed: strays === 0,
    dataEnd,
    paddedEnd,
    fault,
    warnings: [...strayWarnings(stray, strays, label), ...tail],
  };
}

function truncated(infos: readonly TensorInfo[], place: DataPlace, expected: number): FormatError {
  const { label, dataStart, fileBytes } = place;
  const cut = infos.find((info) => dataStart + info.offset + info.byteLength > fileBytes);
  const name = cut === undefined ? "" : `, "${printable(cut.name)}" is the first tensor that is cut`;
  const message = `Cannot open GGUF file: tensor data must reach byte ${expected}, the file ends at ${fileBytes}${name}`;
  return new FormatError(
    "format/gguf.truncated",
    message,
    { source: label, offset: fileBytes, path: "tensor_data" },
    {
      hint: "The download or copy did not finish; download the file again",
      neededBytes: alignUp(expected, place.alignment),
    },
  );
}

function strayWarnings(first: TensorInfo | undefined, count: number, label: string): Finding[] {
  if (first === undefined) return [];
  const message = `${count === 1 ? "1 tensor does" : `${count} tensors do`} not begin where the one before ends, "${printable(first.name)}" first; llama.cpp refuses such files`;
  const at = { source: label, offset: first.infoOffset, path: "tensor_infos" };
  return [{ severity: "warning", code: "format/gguf.data-order", message, at, name: first.name }];
}

function tailWarnings(
  infos: readonly TensorInfo[],
  { label, fileBytes }: DataPlace,
  dataEnd: number,
  paddedEnd: number,
): Finding[] {
  const at = { source: label, offset: Math.min(dataEnd, fileBytes), path: "tensor_data" };
  if (fileBytes > paddedEnd) {
    const message = `${fileBytes - paddedEnd} bytes follow the last tensor`;
    return [{ severity: "warning", code: "format/gguf.trailing-bytes", message, at: { ...at, offset: paddedEnd } }];
  }
  if (infos.length === 0 || fileBytes === paddedEnd) return [];
  const message = `The padding after the last tensor must have ${paddedEnd - dataEnd} bytes, found ${fileBytes - dataEnd}; llama.cpp fails to load such files`;
  return [{ severity: "warning", code: "format/gguf.tail-padding", message, at }];
}
