import { FormatError } from "../../base/errors.ts";
import { checkLimit } from "../../base/limits.ts";
import { decodeUtf8, printable } from "../../base/text.ts";
import type { Turns } from "../../base/turns.ts";
import { byteLengthOf, type DType } from "../../model/dtype.ts";
import type { Shape } from "../../model/shape.ts";
import type { HeaderWindow } from "./header-window.ts";
import { tensorType } from "./layout.ts";
import type { GgufLimits } from "./limits.ts";

/** One row of the tensor table. */
export interface TensorInfo {
  readonly name: string;
  readonly nameBytes: number;
  readonly dtype: DType;
  /** Outermost first; the file has it the other way round. */
  readonly shape: Shape;
  /** Relative to the start of the data. */
  readonly offset: number;
  readonly byteLength: number;
  /** Where the row begins in the file. */
  readonly infoOffset: number;
}

export interface TensorInfoRange {
  readonly offset: number;
  readonly count: number;
  readonly alignment: number;
}

/** Reads the tensor table; the caller has checked the count against the file's size. */
export async function readTensorInfos(
  window: HeaderWindow,
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

/** Returns where the name ends, with its bytes here. */
async function readNameExtent(window: HeaderWindow, offset: number, path: string, limits: GgufLimits): Promise<number> {
  const lengthPath = (): string => `${path}.name.len`;
  if (offset + 8 > window.filled) await window.fill(offset, 8, lengthPath);
  const length = window.u64(offset, lengthPath);
  window.checkRoom(offset + 8, length, lengthPath);
  checkLimit(
    length,
    limits.nameBytes,
    "a tensor name of so many bytes",
    "limit/gguf.name-bytes",
    window.at(offset, lengthPath()),
  );
  const end = offset + 8 + length;
  if (end > window.filled) await window.fill(offset + 8, length, () => `${path}.name`);
  return end;
}

/** Returns the rank, with the rest of the row here: dimensions, type and offset. */
async function readRank(
  window: HeaderWindow,
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

function decodeInfo(window: HeaderWindow, { offset, rankAt, rank, path, alignment }: InfoPlace): TensorInfo {
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
  // Every type that GGUF can name has a size that follows from the shape.
  const byteLength = byteLengthOf(dtype, shape, window.at(rankAt + 4, `${path}.dimensions`)) ?? 0;
  return { name, nameBytes: rankAt - offset - 8, dtype, shape, offset: dataOffset, byteLength, infoOffset: offset };
}

function duplicateName(window: HeaderWindow, name: string, offset: number, path: string): FormatError {
  const message = `Cannot read GGUF tensors: the name "${printable(name)}" occurs twice`;
  return new FormatError("format/gguf.duplicate-name", message, window.at(offset, `${path}.name`));
}
