import type { Bytes } from "../../../base/bytes.ts";
import { isTareError } from "../../../base/errors.ts";
import { decodeBase64, isWellFormed } from "../../../base/text.ts";
import { byteLengthOf, type DType } from "../../../model/dtype.ts";
import type { Loss } from "../../../model/finding.ts";
import { arrayValue, type MetadataValue, stringValue } from "../../../model/metadata.ts";
import type { CarriedTensor, Json, OriginFacts } from "../../../model/origin/origin.ts";
import type { Tensor } from "../../../model/tensor.ts";
import { decodeMsgpack } from "../../../primitives/encoding/msgpack-value.ts";
import { QUANT_PARAMS } from "../chunks/tidx.ts";
import { dtypeId, ggmlType, PACKED_ID } from "../layout.ts";

/** How the index describes a tensor's type. */
export interface StoredType {
  /** dtype id. */
  readonly dtype: number;
  readonly quantId?: number | undefined;
  /** Bytes are MessagePack, written as they are. */
  readonly quantParams?: { readonly [key: string]: Json } | Bytes | undefined;
}

export interface StoredTensor extends StoredType {
  readonly tensor: Tensor;
}

export interface TensorPlan {
  /** In the order of the content. */
  readonly stored: readonly StoredTensor[];
  /** Tensors whose type the index has no field for. */
  readonly carried: readonly CarriedTensor[];
  /** The MJSN's `quant_descriptors`; undefined if no tensor has one of our `quant_id`s. */
  readonly descriptors: MetadataValue | undefined;
  readonly losses: readonly Loss[];
}

/** Decides how each tensor is stored. Reads nothing; bytes are always copied as they are. */
export function planTensors(tensors: readonly Tensor[], facts: OriginFacts | undefined): TensorPlan {
  const stored: StoredTensor[] = [];
  const carried: CarriedTensor[] = [];
  const losses: Loss[] = [];
  const names = new Set<string>();
  const types = new TypeTable(facts);
  for (const tensor of tensors) {
    const { name, dtype, shape } = tensor;
    const reason = nameFault(name, names);
    if (reason !== undefined) {
      losses.push({ name, reason });
      continue;
    }
    names.add(name);
    const type = types.store(tensor);
    stored.push({ tensor, ...type });
    if (type.quantParams !== undefined && dtype !== "PACKED" && !tellsLength(tensor))
      carried.push([name, dtype, shape]);
  }
  return { stored, carried, descriptors: types.descriptors(), losses };
}

/** True if the reader finds the type by `quant_params`, because the length fits the shape. */
function tellsLength({ dtype, shape, byteLength, name }: Tensor): boolean {
  try {
    return byteLengthOf(dtype, shape, { source: name }) === byteLength;
  } catch (error) {
    if (isTareError(error)) return false; // a row that ends inside a block
    throw error;
  }
}

function nameFault(name: string, names: ReadonlySet<string>): string | undefined {
  if (names.has(name)) return "another tensor has the same name";
  // Half a surrogate pair has no UTF-8 form: writing it would change the name.
  return isWellFormed(name) ? undefined : "its name is no well-formed Unicode text";
}

/** A row of `quant_descriptors`, as the reference's GGUF converter writes it. */
interface Descriptor {
  readonly name: string;
  readonly codec: "ggml" | "tare";
  readonly params: { readonly [key: string]: number | string };
}

/** Gives packed types their numbers, in the order of first use. */
class TypeTable {
  readonly #descriptors: Descriptor[] = [];
  readonly #ids = new Map<DType, number>();
  readonly #unknownIds: "kept" | "packed";
  readonly #quants: ReadonlyMap<string, StoredType>;

  constructor(facts: OriginFacts | undefined) {
    // Ids of unknown types mean the same only if they come from an AERO file.
    this.#unknownIds = facts === undefined ? "packed" : "kept";
    this.#quants = quantFacts(facts?.["quants"]);
  }

  store({ name, dtype }: Tensor): StoredType {
    const plain = dtypeId(dtype);
    if (plain !== undefined) return { dtype: plain };
    const unknown = this.#unknownIds === "kept" ? /^UNKNOWN_([0-9]+)$/.exec(dtype)?.[1] : undefined;
    if (unknown !== undefined) return { dtype: Number(unknown) };
    if (dtype === "PACKED") return this.#quants.get(name) ?? { dtype: PACKED_ID };
    const ggml = ggmlType(dtype);
    const descriptor: Descriptor =
      ggml === undefined
        ? { name: dtype, codec: "tare", params: { dtype } }
        : { name: ggml.name, codec: "ggml", params: { ggml_type: ggml.id } };
    return { dtype: PACKED_ID, quantId: this.#number(dtype, descriptor), quantParams: descriptor.params };
  }

  descriptors(): MetadataValue | undefined {
    if (this.#descriptors.length === 0) return undefined;
    return arrayValue(
      this.#descriptors.map(({ name, codec, params }, id) =>
        mapValue([
          ["codec", stringValue(codec)],
          ["id", integerValue(id)],
          ["params", mapValue(Object.entries(params).map(([key, value]) => [key, paramValue(value)]))],
          ["quant_name", stringValue(name)],
        ]),
      ),
      "map",
    );
  }

  #number(dtype: DType, descriptor: Descriptor): number {
    const known = this.#ids.get(dtype);
    if (known !== undefined) return known;
    this.#ids.set(dtype, this.#descriptors.length);
    return this.#descriptors.push(descriptor) - 1;
  }
}

function mapValue(members: readonly (readonly [string, MetadataValue])[]): MetadataValue {
  return { type: "map", entries: members.map(([key, value]) => ({ key, value })) };
}

/** The type that the reader gives a JSON integer. */
function integerValue(value: number): MetadataValue {
  return { type: "i64", value };
}

function paramValue(value: number | string): MetadataValue {
  return typeof value === "number" ? integerValue(value) : stringValue(value);
}

/** Rows as `packedFacts` makes them, for packed tensors whose meaning is unknown here. */
function quantFacts(fact: unknown): ReadonlyMap<string, StoredType> {
  const quants = new Map<string, StoredType>();
  for (const row of Array.isArray(fact) ? (fact as readonly unknown[]) : []) {
    if (!Array.isArray(row)) continue;
    const [name, quantId, json, encoded] = row as readonly unknown[];
    if (typeof name !== "string") continue;
    const quantParams = isJsonObject(json) ? json : parseParams(encoded);
    quants.set(name, {
      dtype: PACKED_ID,
      ...(Number.isSafeInteger(quantId) && (quantId as number) >= 0 ? { quantId: quantId as number } : {}),
      ...(quantParams === undefined ? {} : { quantParams }),
    });
  }
  return quants;
}

/** One MessagePack value that our own reader accepts. */
function parseParams(text: unknown): Bytes | undefined {
  const bytes = typeof text === "string" ? decodeBase64(text) : undefined;
  if (bytes === undefined) return undefined;
  try {
    decodeMsgpack(bytes, { source: "tare.origin", base: 0, ...QUANT_PARAMS });
    return bytes;
  } catch (error) {
    if (isTareError(error)) return undefined;
    throw error;
  }
}

/** Facts were parsed from JSON, so an object in them is a JSON object. */
function isJsonObject(value: unknown): value is { readonly [key: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
