import { plainBytes } from "../../base/bytes.ts";
import { isTareError, UsageError } from "../../base/errors.ts";
import { nearestFirst } from "../../base/nearest.ts";
import { isWellFormed, printable } from "../../base/text.ts";
import { blobSource } from "../../bytes/blob.ts";
import { foreignSource } from "../../bytes/layers/foreign.ts";
import { memorySource } from "../../bytes/memory.ts";
import type { Source } from "../../bytes/source.ts";
import { rememberOpened } from "../../formats/open.ts";
import type { Shape } from "../../model/dtype.ts";
import { byteLengthOf, DTYPES, type DType, isDType } from "../../model/dtype.ts";
import type { Format, FormatReader } from "../../model/format.ts";
import { arrayValue, Metadata, type MetadataValue, stringValue } from "../../model/metadata.ts";
import { type Model, TensorIndex } from "../../model/model.ts";
import { Tensor } from "../../model/tensor.ts";
import { checkOptions, objectRule } from "../options.ts";

/** A tensor of your own. */
export interface TensorInput {
  readonly name: string;
  /** In small letters too. */
  readonly dtype: DType | Lowercase<DType>;
  /** Outermost dimension first. */
  readonly shape: Shape;
  /** Little-endian, row-major, as long as type and shape say. It must not change while the model is used. */
  readonly data: ArrayBufferView | Blob | Source;
}

export interface CreateModelOptions {
  /** Texts, numbers, booleans, null, bytes, and lists and objects of these. */
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
}

const LABEL = "model";
const AT = { source: "createModel" };

/**
 * A model from arrays of your own, to be given to `convert` and every other verb. Sources stay the caller's: closing the
 * model does not close them.
 *
 * @example
 * const data = new Float32Array([1, 2, 3, 4, 5, 6]);
 * const model = createModel([{ name: "w", dtype: "F32", shape: [2, 3], data }], { metadata: { license: "MIT" } });
 * await convert(model, memory(), { to: "safetensors" });
 */
export function createModel(tensors: readonly TensorInput[], options: CreateModelOptions = {}): Model {
  checkOptions("createModel", options, { metadata: objectRule });
  if (!Array.isArray(tensors)) throw new UsageError("usage/tensor", "Cannot make a model: tensors must be a list", AT);
  const names = new Set<string>();
  const made = (tensors as readonly TensorInput[]).map((tensor, i) => {
    const tensorMade = tensorOf(tensor, i);
    if (names.has(tensorMade.name)) throw refused(tensorMade.name, "its name is given twice");
    names.add(tensorMade.name);
    return tensorMade;
  });
  const metadata = new Metadata(
    Object.entries(options.metadata ?? {})
      .filter(([, value]) => value !== undefined)
      .map(([key, value]) => ({ key: wellFormed(key, key), value: metadataValue(value, key) })),
  );
  const model = new OwnModel(made, metadata);
  rememberOpened(model, { container: model, format: OWN_FORMAT, reader: OWN_READER, notes: [], siblings: undefined });
  return model;
}

class OwnModel implements Model {
  readonly kind = "model";
  readonly format = OWN_FORMAT.id;
  readonly version = undefined;
  readonly parts = [];
  readonly metadata: Metadata;
  readonly tensors: readonly Tensor[];
  readonly warnings = [];
  readonly facts = [];
  readonly #index: TensorIndex;

  constructor(tensors: readonly Tensor[], metadata: Metadata) {
    this.tensors = tensors;
    this.metadata = metadata;
    this.#index = new TensorIndex(tensors, LABEL);
  }

  tensor(name: string): Tensor {
    return this.#index.get(name);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** No file has it: what is known of a model that a program made. */
const OWN_READER: FormatReader = {
  limits: {},
  open: () => Promise.reject(new UsageError("usage/input", "Cannot open: no file has this format", AT)),
  sections: () => [],
};

const OWN_FORMAT: Format = {
  id: "memory",
  name: "arrays in memory",
  kind: "model",
  extensions: [],
  sniff: () => "no",
  read: async () => OWN_READER,
  verify: async () => ({ async *verify() {} }),
};

function tensorOf(given: TensorInput, index: number): Tensor {
  if (typeof given !== "object" || given === null) throw refused(`#${index}`, "it must be an object");
  const { name, shape, data } = given;
  if (typeof name !== "string" || name === "") throw refused(`#${index}`, "its name must be text");
  if (!isWellFormed(name)) throw refused(name, "its name has half of a surrogate pair");
  const dtype = dtypeNamed(name, given.dtype);
  const byteLength = byteLengthFor(name, dtype, shape);
  const source = sourceFor(name, data);
  if (source.byteLength !== byteLength) {
    throw refused(name, `${dtype} [${shape.join(", ")}] must be ${byteLength} bytes, found ${source.byteLength}`);
  }
  return new Tensor({ name, dtype, shape: [...shape], byteLength, offset: 0 }, { source: () => source });
}

function dtypeNamed(name: string, dtype: unknown): DType {
  const meant = typeof dtype === "string" ? dtype.toUpperCase() : "";
  if (isDType(meant)) return meant;
  const hint = nearestFirst(String(dtype), Object.keys(DTYPES), "The types are");
  throw refused(name, `there is no type "${printable(String(dtype))}"`, { hint });
}

function byteLengthFor(name: string, dtype: DType, shape: unknown): number {
  const isShape = Array.isArray(shape) && shape.every((dimension) => Number.isSafeInteger(dimension) && dimension >= 0);
  if (!isShape) throw refused(name, "its shape must be a list of whole numbers >= 0");
  let byteLength: number | undefined;
  try {
    byteLength = byteLengthOf(dtype, shape as Shape, { ...AT, path: name });
  } catch (error) {
    throw refused(name, isTareError(error) ? error.message : String(error), { cause: error });
  }
  if (byteLength === undefined) throw refused(name, `the size of ${dtype} does not follow from a shape`);
  return byteLength;
}

function sourceFor(name: string, data: unknown): Source {
  if (ArrayBuffer.isView(data)) return memorySource(plainBytes(data), name);
  if (data instanceof Blob) return blobSource(data, name);
  const isSource = typeof data === "object" && data !== null && "read" in data && "stream" in data;
  if (isSource && "byteLength" in data) return foreignSource(data as Source);
  throw refused(name, "its data must be a typed array, a Blob or a Source");
}

function refused(
  name: string,
  reason: string,
  more: { readonly hint?: string; readonly cause?: unknown } = {},
): UsageError {
  const message = `Cannot make the tensor "${printable(name)}": ${reason}`;
  return new UsageError("usage/tensor", message, { ...AT, path: name }, more);
}

/** No metadata nests deeper, and what contains itself never ends. */
const MAX_DEPTH = 64;

function metadataValue(given: unknown, path: string, depth = 0): MetadataValue {
  if (given === null) return { type: "null" };
  if (typeof given === "string") return stringValue(wellFormed(given, path));
  if (typeof given === "boolean") return { type: "bool", value: given };
  if (typeof given === "number") {
    const isInteger = Number.isSafeInteger(given) && !Object.is(given, -0);
    return { type: isInteger ? "i64" : "f64", value: given };
  }
  if (typeof given === "bigint") return integerOf(given, path);
  if (given instanceof Uint8Array) return { type: "bytes", value: new Uint8Array(plainBytes(given)) };
  if (typeof given !== "object" || depth >= MAX_DEPTH) throw unusable(path, typeof given);
  if (Array.isArray(given)) {
    const items = given.map((item: unknown, i) => metadataValue(item, `${path}[${i}]`, depth + 1));
    const [first] = items;
    return arrayValue(items, first && items.every(({ type }) => type === first.type) ? first.type : undefined);
  }
  const prototype: unknown = Object.getPrototypeOf(given);
  if (prototype !== Object.prototype && prototype !== null) throw unusable(path, given.constructor.name);
  const entries = Object.entries(given).filter(([, value]) => value !== undefined);
  return {
    type: "map",
    entries: entries.map(([key, value]) => {
      const place = `${path}.${key}`;
      return { key: wellFormed(key, place), value: metadataValue(value, place, depth + 1) };
    }),
  };
}

/** UTF-8 has no bytes for half of a surrogate pair: another character would be written in its place. */
function wellFormed(text: string, path: string): string {
  if (isWellFormed(text)) return text;
  throw unusable(path, "half of a surrogate pair");
}

function integerOf(given: bigint, path: string): MetadataValue {
  const value = given >= Number.MIN_SAFE_INTEGER && given <= Number.MAX_SAFE_INTEGER ? Number(given) : given;
  if (given >= -(2n ** 63n) && given < 2n ** 63n) return { type: "i64", value };
  if (given >= 0n && given < 2n ** 64n) return { type: "u64", value };
  throw unusable(path, "an integer beyond 64 bits");
}

function unusable(path: string, found: string): UsageError {
  const message = `Cannot use the metadata "${printable(path)}": no file can hold ${printable(found)}`;
  return new UsageError("usage/metadata", message, { ...AT, path });
}
