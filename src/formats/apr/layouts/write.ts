import type { Bytes } from "../../../base/bytes.ts";
import { UsageError } from "../../../base/errors.ts";
import { alignUp } from "../../../base/integers.ts";
import { encodeUtf8, isWellFormed } from "../../../base/text.ts";
import type { Output } from "../../../bytes/sink.ts";
import { configuredType, type ModelFolder } from "../../../model/configuration.ts";
import type { Shape } from "../../../model/dtype.ts";
import { type DType, dtypeFacts, type KnownDType } from "../../../model/dtype.ts";
import type { Loss } from "../../../model/finding.ts";
import type { ModelContent, WriteContext, WriteOptions, WritePlan } from "../../../model/format.ts";
import { type Metadata, type MetadataEntry, type MetadataValue, stringValue } from "../../../model/metadata.ts";
import { renderMetadata } from "../../../model/metadata-json.ts";
import { addedEntry, packMetadata } from "../../../model/origin/metadata.ts";
import {
  type CarriedEntry,
  type CarriedTensor,
  encodeOrigin,
  ORIGIN_KEY,
  type OriginLink,
  orderFor,
  splitChain,
} from "../../../model/origin/origin.ts";
import { CrcSink, checkWritten, type Piece, writePieces } from "../../../model/pieces.ts";
import type { Tensor } from "../../../model/tensor.ts";
import { ByteWriter } from "../../../struct/cursor.ts";
import { holdingOf } from "../metadata.ts";
import { factLosses } from "../spec/origin.ts";
import { aprenderId, fits } from "./dtypes.ts";
import {
  ALIGNMENT_64,
  CRC_BYTES,
  FLAGS_64,
  HEADER_CRC_OFFSET,
  header64,
  headerCrcOf,
  MAX_DIMENSIONS,
  MAX_NAME_BYTES,
} from "./layout.ts";
import { VOCABULARY_KEYS } from "./layout-facts.ts";
import { compareNames } from "./tensors.ts";

interface AprenderMetadata {
  readonly metadata: Metadata;
  readonly tensors: readonly Tensor[];
  readonly chain: readonly OriginLink[];
  readonly carried: readonly CarriedTensor[];
  readonly order: readonly number[] | undefined;
  readonly folder: ModelFolder | undefined;
}

type Kind = "text" | "count" | "number" | "object";

const kinds = (kind: Kind, keys: readonly string[]): readonly (readonly [string, Kind])[] =>
  keys.map((key) => [key, kind]);

/** Keys that aprender reads into typed fields: a value of another type makes it refuse the whole file. */
const TYPED_KEYS: ReadonlyMap<string, Kind> = new Map([
  ...kinds("text", [
    "model_type",
    "name",
    "description",
    "author",
    "license",
    "data_source",
    "data_license",
    "version",
  ]),
  ...kinds("text", ["source", "original_format", "created_at", "chat_template", "chat_format"]),
  ...kinds("text", ["architecture", "hf_architecture", "hf_model_type"]),
  ...kinds("count", ["total_size", "param_count", "hidden_size", "num_layers", "num_heads", "num_kv_heads"]),
  ...kinds("count", ["vocab_size", "intermediate_size", "max_position_embeddings", "rope_type", "head_dim"]),
  ...kinds("count", ["num_experts", "num_experts_per_tok", "moe_intermediate_size"]),
  ...kinds("number", ["rope_theta", "rms_norm_eps"]),
  ...kinds("object", ["quantization", "sharding", "special_tokens"]),
]);

/** Other spellings that realizar accepts for the same key; it drops all metadata of a file that has both. */
const ALIASES: Readonly<Record<string, readonly string[]>> = {
  hidden_size: ["hidden_dim", "d_model", "n_embd"],
  num_layers: ["num_hidden_layers", "n_layers", "n_layer"],
  num_heads: ["num_attention_heads", "n_heads", "n_head"],
  num_kv_heads: ["num_key_value_heads", "n_kv_heads"],
  vocab_size: ["n_vocab"],
  intermediate_size: ["ffn_dim", "intermediate_dim", "n_inner"],
  max_position_embeddings: ["max_seq_len", "context_length", "n_ctx"],
  rms_norm_eps: ["layer_norm_eps", "norm_eps"],
};

/** The value of `model_type` if a model does not say what it is. */
const UNKNOWN_TYPE = "unknown";

/**
 * The members of the metadata object as aprender reads it: the keys it always writes, every key of the model that it
 * accepts, and `tare.origin` with everything else, if there is anything.
 */
function planAprenderMetadata(content: AprenderMetadata): readonly MetadataEntry[] {
  const { metadata, chain, carried, order } = content;
  const owned = new Map(ownEntries(content).map(({ key, value }) => [key, value]));
  const dropped = unwantedAliases(metadata);
  const { native, entries } = packMetadata(metadata, ({ key, value }) => {
    const ours = owned.get(key);
    if ((ours !== undefined && ours !== value) || dropped.has(key) || key === ORIGIN_KEY) return "none";
    return isWellFormed(key) && isAccepted(key, value) ? holdingOf(value) : "none";
  });
  const held = new Set(native.map(({ key }) => key));
  const added = [...owned].filter(([key]) => !held.has(key)).map(([key, value]) => ({ key, value }));
  const unsaid = added.filter(({ key }) => metadata.get(key) === undefined);
  const says: readonly CarriedEntry[] | undefined =
    entries === undefined && unsaid.length === 0
      ? undefined
      : [
          ...(entries ?? native.map(({ key }) => [key] as const)),
          ...unsaid.map(({ key, value }) => addedEntry(key, value)),
        ];
  const members = [...added, ...native];
  if (chain.length === 0 && says === undefined && carried.length === 0) return members;
  const origin = encodeOrigin({
    chain,
    ...(says === undefined ? {} : { entries: says }),
    ...(carried.length === 0 ? {} : { tensors: carried }),
    ...(order === undefined ? {} : { order }),
  });
  return [...members, { key: ORIGIN_KEY, value: stringValue(origin) }];
}

/** The keys that every file of aprender has, and the architecture if it can be a string. */
function ownEntries({ metadata, tensors, folder }: AprenderMetadata): readonly MetadataEntry[] {
  const keep = (key: string, fallback: MetadataValue): MetadataEntry => {
    const value = metadata.get(key);
    return { key, value: value !== undefined && isAccepted(key, value) ? value : fallback };
  };
  const architecture = architectureOf(metadata) ?? configuredType(folder?.configuration);
  const elements = tensors.reduce((sum, tensor) => sum + tensor.elementCount, 0);
  const byteLength = tensors.reduce((sum, tensor) => sum + tensor.byteLength, 0);
  return [
    keep("model_type", stringValue(architecture ?? UNKNOWN_TYPE)),
    keep("license", { type: "null" }),
    keep("data_source", { type: "null" }),
    keep("data_license", { type: "null" }),
    keep("total_size", { type: "u64", value: byteLength }),
    keep("param_count", { type: "u64", value: elements }),
    ...(architecture === undefined ? [] : [keep("architecture", stringValue(architecture))]),
  ];
}

/** aprender has a string and the specification an object, which may contain a name. */
function architectureOf(metadata: Metadata): string | undefined {
  const own = metadata.get("architecture");
  if (own?.type === "string") return own.raw === undefined ? own.value : undefined;
  const name = own?.type === "map" ? own.entries.find(({ key }) => key === "name")?.value : undefined;
  if (name?.type === "string" && name.raw === undefined && isWellFormed(name.value)) return name.value;
  return metadata.text("general.architecture");
}

function isAccepted(key: string, value: MetadataValue): boolean {
  const kind = TYPED_KEYS.get(key);
  if (kind === undefined) return true;
  if (value.type === "null") return key !== "model_type" && kind !== "count";
  if (kind === "text") return value.type === "string" && value.raw === undefined;
  if (kind === "object") return value.type === "map";
  if (!("value" in value) || typeof value.value === "string" || typeof value.value === "boolean") return false;
  if (typeof value.value === "object" || value.value < 0) return false;
  return kind === "number" || (value.type !== "f32" && value.type !== "f64");
}

function unwantedAliases(metadata: Metadata): ReadonlySet<string> {
  const dropped = new Set<string>();
  for (const [key, aliases] of Object.entries(ALIASES)) {
    const spellings = [key, ...aliases].filter((spelling) => metadata.get(spelling) !== undefined);
    for (const spelling of spellings.slice(1)) dropped.add(spelling);
  }
  return dropped;
}

/** A file in the layout that aprender reads. Every byte is known except those of the tensors and the CRC over them. */
interface AprenderPlan extends WritePlan {
  readonly layout: "aprender";
  readonly pieces: readonly Piece[];
}

/** A tensor as the index will describe it. */
interface StoredTensor {
  readonly tensor: Tensor;
  readonly nameBytes: Bytes;
  readonly id: number;
  readonly shape: Shape;
}

/** "APR\0", the magic since January 2026. */
const MAGIC = Uint8Array.of(0x41, 0x50, 0x52, 0);

/** True for plans of this layout. */
export function isAprenderPlan(plan: WritePlan): plan is AprenderPlan {
  return "layout" in plan && plan.layout === "aprender";
}

/** Plans one file that the current aprender opens: sorted index, 64-byte padding, checksums. Pure. */
export function planAprender(content: ModelContent, options: WriteOptions): AprenderPlan {
  checkOptions(options);
  const { stored, carried, losses } = storeTensors(content.tensors);
  const sorted = [...stored].sort((a, b) => compareNames(a.tensor.name, b.tensor.name));
  const chain = splitChain(content.chain, "apr").keep.filter(({ format }) => format !== "apr");
  const order = chain.length === 0 ? undefined : orderFor(stored.map(nameOf), sorted.map(nameOf));
  const tensors = stored.map(({ tensor }) => tensor);
  const entries = planAprenderMetadata({
    ...{ metadata: content.metadata, tensors, chain, carried, order },
    folder: options.folder,
  });
  const hasVocabulary = entries.some(({ key }) => VOCABULARY_KEYS.includes(key));
  const metadata = encodeUtf8(renderMetadata(entries));
  const front = encodeFront(sorted, metadata, hasVocabulary ? ["HAS_VOCAB"] : []);
  const pieces: Piece[] = [{ kind: "bytes", bytes: front }];
  let byteLength = front.byteLength;
  for (const { tensor } of sorted) {
    if (tensor.byteLength === 0) continue;
    const end = byteLength + tensor.byteLength;
    pieces.push({ kind: "tensor", tensor }, { kind: "zeros", byteLength: alignUp(end, ALIGNMENT_64) - end });
    byteLength = alignUp(end, ALIGNMENT_64);
  }
  return {
    layout: "aprender",
    pieces,
    files: [{ name: options.name, byteLength: byteLength + CRC_BYTES }],
    primary: options.name,
    losses: [...factLosses(content.chain), ...losses],
    notes: [],
  };
}

/** Streams the file and computes its CRC on the way. Nothing is visible before it is read back. */
export async function writeAprender(plan: AprenderPlan, output: Output, context: WriteContext): Promise<void> {
  const sink = await output.create(plan.primary);
  try {
    const through = new CrcSink(sink, context.engine);
    await writePieces(plan.pieces, through, context);
    const footer = new ByteWriter(CRC_BYTES);
    footer.u32(await through.crc());
    await sink.append(footer.take());
    await checkWritten(new Map([[plan.primary, sink]]), output, context);
    await sink.commit();
  } catch (error) {
    await sink.abort();
    throw error;
  }
}

function checkOptions({ align, maxShardBytes, compress }: WriteOptions): void {
  const at = { source: "layout" };
  if (align !== undefined && align !== ALIGNMENT_64) {
    const message = `Cannot align the aprender layout to ${align} bytes: must be 64`;
    throw new UsageError("usage/apr.align", message, at);
  }
  const asked = maxShardBytes !== undefined ? "sets of shards" : compress === "lz4" ? "compressed tensors" : undefined;
  if (asked === undefined) return;
  const message = `Cannot write ${asked} in the aprender layout: no reader of it knows them`;
  throw new UsageError("usage/apr.layout", message, at, {
    hint: "Leave out the option layout for the specification's layout",
  });
}

function nameOf({ tensor }: StoredTensor): string {
  return tensor.name;
}

interface StoredTensors {
  readonly stored: readonly StoredTensor[];
  readonly carried: readonly CarriedTensor[];
  readonly losses: readonly Loss[];
}

function storeTensors(tensors: readonly Tensor[]): StoredTensors {
  const stored: StoredTensor[] = [];
  const carried: CarriedTensor[] = [];
  const losses: Loss[] = [];
  const names = new Set<string>();
  for (const tensor of tensors) {
    const { name, dtype, shape } = tensor;
    const nameBytes = encodeUtf8(name);
    const fault = names.has(name) ? "another tensor has the same name" : nameFault(name, nameBytes);
    if (fault !== undefined) {
      losses.push({ name, reason: fault });
      continue;
    }
    names.add(name);
    const id = idOf(tensor);
    const isShort = shape.length <= MAX_DIMENSIONS;
    if (id !== undefined && isShort) stored.push({ tensor, nameBytes, id, shape });
    // Bytes are always kept. Other readers do not see numbers in them, which is a loss that the user must accept.
    else stored.push({ tensor, nameBytes, id: aprenderId("U8") ?? 0, shape: [tensor.byteLength] });
    if (id === undefined || !isShort || dtype === "BOOL") carried.push([name, dtype, shape]);
    if (id === undefined || !isShort) losses.push({ name, reason: lossReason(tensor) });
  }
  return { stored, carried, losses };
}

/** Undefined if aprender has no such type, or if the bytes are not what it expects of it. */
function idOf(tensor: Tensor): number | undefined {
  // A boolean is a byte; tare.origin keeps its meaning.
  const dtype: DType = tensor.dtype === "BOOL" ? "U8" : tensor.dtype;
  const id = aprenderId(dtype);
  return id !== undefined && fits(dtype as KnownDType, tensor, { source: tensor.name }) ? id : undefined;
}

function lossReason({ dtype, shape }: Tensor): string {
  const stored = "it would be stored as bytes (U8) that only tare takes for what they are";
  if (shape.length > MAX_DIMENSIONS)
    return `aprender keeps ${MAX_DIMENSIONS} dimensions, this has ${shape.length}; ${stored}`;
  return `aprender has no ${dtype}${aprenderId(dtype) === undefined ? "" : " of this shape and size"}; ${stored}`;
}

function nameFault(name: string, bytes: Bytes): string | undefined {
  if (!isWellFormed(name)) return "its name is no well-formed Unicode text";
  return bytes.byteLength > MAX_NAME_BYTES ? `aprender cuts names after ${MAX_NAME_BYTES} bytes` : undefined;
}

/** Header, metadata and index, each padded to 64 bytes. */
function encodeFront(sorted: readonly StoredTensor[], metadata: Bytes, flags: readonly "HAS_VOCAB"[]): Bytes {
  const index = encodeIndex(sorted);
  const metadataOffset = header64.byteLength;
  const tensorIndexOffset = alignUp(metadataOffset + metadata.byteLength, ALIGNMENT_64);
  const dataOffset = alignUp(tensorIndexOffset + index.byteLength, ALIGNMENT_64);
  const isQuantized = sorted.some(({ tensor }) => dtypeFacts(tensor.dtype).layout !== "plain");
  const front = new Uint8Array(dataOffset);
  const header = header64.encode({
    magic: MAGIC,
    versionMajor: 2,
    versionMinor: 0,
    flags: Number(FLAGS_64.encode(["LAYOUT_ROW_MAJOR", ...flags, ...(isQuantized ? (["QUANTIZED"] as const) : [])])),
    tensorCount: sorted.length,
    metadataOffset,
    metadataSize: metadata.byteLength,
    tensorIndexOffset,
    dataOffset,
    headerCrc32: 0,
    reserved: new Uint8Array(20),
  });
  front.set(header);
  new DataView(front.buffer).setUint32(HEADER_CRC_OFFSET, headerCrcOf(header), true);
  front.set(metadata, metadataOffset);
  front.set(index, tensorIndexOffset);
  return front;
}

function encodeIndex(sorted: readonly StoredTensor[]): Bytes {
  const writer = new ByteWriter(4096);
  let offset = 0;
  for (const { tensor, nameBytes, id, shape } of sorted) {
    writer.u16(nameBytes.byteLength);
    writer.bytes(nameBytes);
    writer.u8(id);
    writer.u8(shape.length);
    for (const dimension of shape) writer.u64(dimension);
    writer.u64(offset);
    writer.u64(tensor.byteLength);
    offset = alignUp(offset + tensor.byteLength, ALIGNMENT_64);
  }
  return writer.take();
}
