import type { Bytes } from "../../base/bytes.ts";
import type { BertModel } from "../../model/bert/model.ts";
import { rowScaledTensors } from "../../model/bert/quantized-tensor.ts";
import type { Tensor } from "../../model/tensor.ts";
import { type EncoderShape, paddedWidths } from "./encoder-shape.ts";
import { floatsOf, readFloats, readScales } from "./float-tensor.ts";
import type { BoundKernels } from "./kernels.ts";
import type { EncoderLayout } from "./layout.ts";
import { PanelPacker } from "./panel-packer.ts";
import { encoderParameters, type LinearParameter, type RowRun } from "./parameters.ts";
import { readTensors } from "./tensor-reads.ts";

/** What loading fills. */
export interface LoadTarget {
  readonly shape: EncoderShape;
  readonly layout: EncoderLayout;
  readonly bound: BoundKernels;
}

type Place = (bytes: Bytes) => void;

interface Wanted {
  readonly tensor: Tensor;
  readonly place: Place;
}

/** Reads every weight but the word table into its place, with two batches of a few megabytes beside it. */
export async function loadWeights(bert: BertModel, target: LoadTarget, signal: AbortSignal | undefined): Promise<void> {
  const wanted = await wantedTensors(bert, target, signal);
  for await (const { wanted: one, bytes } of readTensors(wanted, signal)) one.place(bytes);
  await loadPositions(bert, target, signal);
}

async function wantedTensors(
  bert: BertModel,
  { shape, layout, bound }: LoadTarget,
  signal: AbortSignal | undefined,
): Promise<Wanted[]> {
  const { linear, biases, vectors } = encoderParameters(shape, layout);
  const floats = new Float32Array(bound.buffer);
  const packer = new PanelPacker(bound, layout);
  const wanted: Wanted[] = [];
  for (const { name, at } of vectors) {
    const tensor = bert.tensor(name);
    wanted.push({ tensor, place: (bytes) => floats.set(floatsOf(tensor, bytes), at / 4) });
  }
  for (const { name, at, runs } of biases) {
    const tensor = bert.tensor(name);
    wanted.push({ tensor, place: (bytes) => placeRuns(floats, at, runs, floatsOf(tensor, bytes)) });
  }
  const byPrecision = shape.precision === "int8" ? wantedBytes : wantedFloats;
  for (const parameter of linear) {
    wanted.push(await byPrecision(bert, { parameter, packer, floats, signal }));
  }
  return wanted;
}

interface LinearLoad {
  readonly parameter: LinearParameter;
  readonly packer: PanelPacker;
  readonly floats: Float32Array;
  readonly signal: AbortSignal | undefined;
}

async function wantedFloats(bert: BertModel, { parameter, packer, signal }: LinearLoad): Promise<Wanted> {
  const tensor = bert.tensor(parameter.name);
  const scales = await readScales(bert, parameter.name, signal);
  return { tensor, place: (bytes) => packer.packFloats(parameter, { bytes, dtype: tensor.dtype, scales }) };
}

async function wantedBytes(bert: BertModel, { parameter, packer, floats, signal }: LinearLoad): Promise<Wanted> {
  const { tensor, scales } = await quantized(bert, parameter.name, signal);
  const { place, rows, runs } = parameter;
  const all = scales.length === 1 ? new Float32Array(rows).fill(scales[0] as number) : scales;
  placeRuns(floats, place.worth, runs, all);
  return { tensor, place: (bytes) => packer.packBytes(parameter, bytes) };
}

/** The weight as I8 with its scales: as stored, or rounded now. */
async function quantized(
  bert: BertModel,
  name: string,
  signal: AbortSignal | undefined,
): Promise<{ readonly tensor: Tensor; readonly scales: Float32Array }> {
  const stored = bert.tensor(name);
  if (stored.dtype === "I8") {
    return { tensor: stored, scales: (await readScales(bert, name, signal)) ?? Float32Array.of(1) };
  }
  const [tensor, scales] = rowScaledTensors(stored);
  return { tensor, scales: await scales.toFloat32({ signal }) };
}

function placeRuns(floats: Float32Array, at: number, runs: readonly RowRun[], values: Float32Array): void {
  for (const { row, count, column } of runs) floats.set(values.subarray(row, row + count), at / 4 + column);
}

/** Every sentence has the same token type, so its vector is added to the positions once and for all. */
async function loadPositions(
  bert: BertModel,
  { shape, layout, bound }: LoadTarget,
  signal: AbortSignal | undefined,
): Promise<void> {
  const width = paddedWidths(shape).hidden;
  const positions = await readFloats(bert, "embeddings.position_embeddings.weight", signal);
  const type = await readFloats(bert, "embeddings.token_type_embeddings.weight", signal);
  const table = new Float32Array(bound.buffer, layout.positions, shape.maxTokens * width);
  for (let row = 0; row < shape.maxTokens; row++) {
    for (let i = 0; i < shape.hidden; i++) {
      table[row * width + i] = (positions[row * shape.hidden + i] as number) + (type[i] as number);
    }
  }
}
