import { FormatError, type Location, UnsupportedError } from "../../base/errors.ts";
import { printable } from "../../base/text.ts";
import { equalShapes, formatShape, type Shape } from "../dtype.ts";
import type { Tensor } from "../tensor.ts";
import { hasNumbers } from "../values/numbers.ts";
import { bertTensorNames, layersNamed, namesBert, POSITION_TABLE, TOKEN_TYPE_TABLE, WORD_TABLE } from "./names.ts";

/** The dimensions that the shapes of an encoder's tensors show. */
export interface BertShapes {
  readonly hidden: number;
  readonly layers: number;
  readonly intermediate: number;
  readonly positions: number;
  readonly vocabularySize: number;
  readonly tokenTypes: number;
}

type ByName = ReadonlyMap<string, Tensor>;

/** Most names in a message before "and N more". */
const NAMED_MISSING = 200;

/** Refuses tensors whose names are not those of a BERT encoder; gives the width of the word table. */
export function checkBertNames(tensors: ByName, at: Location): number {
  if (!namesBert(new Set(tensors.keys()))) throw notBert(tensors, at);
  return matrixShape(tensors, WORD_TABLE, at)[1];
}

/**
 * Refuses an encoder that lacks any of its tensors (all are named), and shapes that do not fit each other. `layers` is
 * the number that the model states; if it states none, the names show it.
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

/** Refuses an encoder that lacks tensors, and names every missing one. */
function checkComplete(tensors: ReadonlyMap<string, unknown>, layers: number | undefined, at: Location): void {
  const names = bertTensorNames(layers ?? layersNamed(tensors.keys()));
  const missing = names.filter((name) => !tensors.has(name));
  if (missing.length === 0) return;
  const shown = missing.slice(0, NAMED_MISSING).map((name) => `"${name}"`);
  const more = missing.length > NAMED_MISSING ? ` and ${missing.length - NAMED_MISSING} more` : "";
  const what = missing.length === 1 ? "1 tensor is" : `${missing.length} tensors are`;
  const message = `Cannot use this BERT model: ${what} missing: ${shown.join(", ")}${more}`;
  throw new FormatError("format/bert.missing-tensors", message, at, {
    hint: `A BERT encoder of ${(names.length - 5) / 16} layers has ${names.length} tensors; these may have been left out, or have names that tare does not know`,
  });
}

/** What the metadata of a model says about its tensors. */
export type StatedShapes = { readonly [name in "hidden" | "layers" | "intermediate"]: number | undefined };

/** What is wrong with one tensor. */
export interface TensorFault {
  readonly name: string;
  readonly code: "format/bert.missing-tensors" | "format/bert.shape";
  readonly message: string;
}

/**
 * The tensors that an encoder lacks, and those whose dimensions do not fit what the model states; of what it does not
 * state, the word table and the first layer count. Nothing is found in tensors of which none has a name of BERT's.
 */
export function* bertFaults(tensors: ByName, stated: StatedShapes): Generator<TensorFault> {
  const names = bertTensorNames(stated.layers ?? layersNamed(tensors.keys()));
  if (!names.some((name) => tensors.has(name))) return;
  const bias = tensors.get("encoder.layer.0.intermediate.dense.bias");
  const hidden = stated.hidden ?? tensors.get(WORD_TABLE)?.shape[1];
  const intermediate = stated.intermediate ?? bias?.elementCount;
  for (const name of names) {
    const tensor = tensors.get(name);
    if (tensor === undefined) {
      const message = `A BERT encoder must have "${name}": it is missing, or has another name`;
      yield { name, code: "format/bert.missing-tensors", message };
    } else if (hidden !== undefined && intermediate !== undefined) {
      // A table has as many rows as it has.
      const rows = tensor.shape[0] ?? 0;
      const sizes = { vocabularySize: rows, positions: rows, tokenTypes: rows };
      const wanted = expectedShape(name, { hidden, intermediate, layers: 0, ...sizes });
      if (equalShapes(tensor.shape, wanted)) continue;
      const message = `"${name}" must be ${formatShape(wanted)} with a hidden_size of ${hidden}, found ${formatShape(tensor.shape)}`;
      yield { name, code: "format/bert.shape", message };
    }
  }
}

function notBert(tensors: ByName, at: Location): UnsupportedError {
  const some = [...tensors.keys()].slice(0, 3).map((name) => `"${printable(name)}"`);
  const found = some.length === 0 ? "no tensors" : some.join(", ");
  const message = `Cannot run this model: must have the tensors of a BERT encoder, found ${found}${tensors.size > 3 ? ", …" : ""}`;
  return new UnsupportedError("unsupported/bert.names", message, at, {
    hint: `Looked for "${WORD_TABLE}" and layers as Hugging Face, llama.cpp and ONNX exports name them`,
  });
}

/** Reads widths from the tables and from a bias, because a matrix may be stored either way round. */
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

/** The shape that the specification's table gives a tensor, with linear weights as [out, in]. */
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

/** Refuses types without a decoder, and integers without a scale, which mean nothing. */
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
