import { FormatError, type Location, UnsupportedError } from "../../base/errors.ts";
import { printable } from "../../base/text.ts";
import { equalShapes, formatShape, type Shape } from "../shape.ts";
import type { Tensor } from "../tensor.ts";
import { hasNumbers } from "../values/numbers.ts";
import { bertTensorNames, layersNamed, namesBert, POSITION_TABLE, TOKEN_TYPE_TABLE, WORD_TABLE } from "./names.ts";

/** The dimensions that an encoder's tensors show by their shapes. */
export interface BertShapes {
  readonly hidden: number;
  readonly layers: number;
  readonly intermediate: number;
  readonly positions: number;
  readonly vocabularySize: number;
  readonly tokenTypes: number;
}

type ByName = ReadonlyMap<string, Tensor>;

/** The names in a message before "and so many more". */
const NAMED_MISSING = 200;

/** Refuses tensors that are no BERT encoder by their names; gives the width of the word table. */
export function checkBertNames(tensors: ByName, at: Location): number {
  if (!namesBert(new Set(tensors.keys()))) throw notBert(tensors, at);
  return matrixShape(tensors, WORD_TABLE, at)[1];
}

/**
 * Refuses an encoder that lacks any of its tensors (all of them are named), and shapes that do not fit each other. `layers` is what the model says; what the names show where it says nothing.
 */
export function checkBertTensors(tensors: ByName, layers: number | undefined, at: Location): BertShapes {
  checkComplete(tensors, layers, at);
  const shapes = readShapes(tensors, layers ?? layersNamed(tensors.keys()), at);
  const wrong: string[] = [];
  for (const name of bertTensorNames(shapes.layers)) {
    const found = tensors.get(name) as Tensor;
    const wanted = expectedShape(name, shapes);
    if (!equalShapes(found.shape, wanted))
      wrong.push(`"${name}" must be ${formatShape(wanted)}, found ${formatShape(found.shape)}`);
    checkNumbers(found, tensors, at);
  }
  if (wrong.length > 0)
    throw new FormatError("format/bert.shape", `Cannot use the model's tensors: ${wrong.join("; ")}`, at);
  return shapes;
}

/** Refuses an encoder that lacks tensors; every missing one is named. */
export function checkComplete(tensors: ReadonlyMap<string, unknown>, layers: number | undefined, at: Location): void {
  const names = bertTensorNames(layers ?? layersNamed(tensors.keys()));
  const missing = names.filter((name) => !tensors.has(name));
  if (missing.length === 0) return;
  const shown = missing.slice(0, NAMED_MISSING).map((name) => `"${name}"`);
  const more = missing.length > NAMED_MISSING ? ` and ${missing.length - NAMED_MISSING} more` : "";
  const what = missing.length === 1 ? "1 tensor is" : `${missing.length} tensors are`;
  const message = `Cannot use this BERT model: ${what} missing: ${shown.join(", ")}${more}`;
  throw new FormatError("format/bert.missing-tensors", message, at, {
    hint: `A BERT encoder of ${(names.length - 5) / 16} layers has ${names.length} tensors; these may have been left out, or have names that nobody knows`,
  });
}

function notBert(tensors: ByName, at: Location): UnsupportedError {
  const some = [...tensors.keys()].slice(0, 3).map((name) => `"${printable(name)}"`);
  const found = some.length === 0 ? "no tensors" : some.join(", ");
  const message = `Cannot run this model: must have the tensors of a BERT encoder, found ${found}${tensors.size > 3 ? ", …" : ""}`;
  return new UnsupportedError("unsupported/bert.names", message, at, {
    hint: `Looked for "${WORD_TABLE}" and layers as Hugging Face, llama.cpp and ONNX exports name them`,
  });
}

/** Widths from the tables and from a bias, because a matrix may be stored either way round. */
function readShapes(tensors: ByName, layers: number, at: Location): BertShapes {
  const [vocabularySize, hidden] = matrixShape(tensors, WORD_TABLE, at);
  const [positions] = matrixShape(tensors, POSITION_TABLE, at);
  const [tokenTypes] = matrixShape(tensors, TOKEN_TYPE_TABLE, at);
  const bias = tensors.get("encoder.layer.0.intermediate.dense.bias") as Tensor;
  return { hidden, layers, intermediate: bias.elementCount, positions, vocabularySize, tokenTypes };
}

function matrixShape(tensors: ByName, name: string, at: Location): readonly [number, number] {
  const { shape } = tensors.get(name) as Tensor;
  const [rows, columns] = shape;
  if (shape.length === 2 && rows !== undefined && columns !== undefined && rows > 0 && columns > 0)
    return [rows, columns];
  const message = `Cannot use "${name}": must be a matrix that is not empty, found ${formatShape(shape)}`;
  throw new FormatError("format/bert.shape", message, { ...at, path: name });
}

/** The shape that a tensor has by the specification's table, linear weights as [out, in]. */
export function expectedShape(name: string, shapes: BertShapes): Shape {
  const { hidden, intermediate } = shapes;
  if (name === WORD_TABLE) return [shapes.vocabularySize, hidden];
  if (name === POSITION_TABLE) return [shapes.positions, hidden];
  if (name === TOKEN_TYPE_TABLE) return [shapes.tokenTypes, hidden];
  if (name.endsWith(".intermediate.dense.weight")) return [intermediate, hidden];
  if (name.endsWith(".intermediate.dense.bias")) return [intermediate];
  const isMatrix = name.endsWith(".weight") && !name.includes("LayerNorm");
  if (!isMatrix) return [hidden];
  return /\d\.output\.dense\.weight$/.test(name) ? [hidden, intermediate] : [hidden, hidden];
}

/** Integers mean nothing without a scale. */
function checkNumbers(tensor: Tensor, tensors: ByName, at: Location): void {
  const { name, dtype } = tensor;
  const where = { ...at, path: name };
  if (!hasNumbers(dtype)) {
    throw new UnsupportedError(
      "unsupported/bert.dtype",
      `Cannot use "${name}": ${dtype} values are not decoded`,
      where,
    );
  }
  if (!/^[IU]\d/.test(dtype)) return;
  const scale = tensors.get(`${name}.scale`);
  const rows = tensor.shape[0] ?? 1;
  if (scale !== undefined && (scale.elementCount === 1 || scale.elementCount === rows)) return;
  const found = scale === undefined ? "none" : formatShape(scale.shape);
  const message = `Cannot use "${name}": ${dtype} values need "${name}.scale" of 1 or ${rows} values, found ${found}`;
  throw new FormatError("format/bert.scale", message, where);
}
