import type { Bytes } from "../../../base/bytes.ts";
import { UsageError } from "../../../base/errors.ts";
import { alignUp } from "../../../base/integers.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import type { Output } from "../../../bytes/sink.ts";
import { type DType, dtypeFacts, type KnownDType } from "../../../model/dtype.ts";
import type { Loss, ModelContent, WriteContext, WriteOptions, WritePlan } from "../../../model/format.ts";
import { renderMetadata } from "../../../model/metadata-json.ts";
import { type CarriedTensor, orderFor, splitChain } from "../../../model/origin.ts";
import { CrcSink, checkWritten, type Piece, writePieces } from "../../../model/pieces.ts";
import type { Shape } from "../../../model/shape.ts";
import type { Tensor } from "../../../model/tensor.ts";
import { ByteWriter } from "../../../struct/byte-writer.ts";
import { isWellFormed } from "../spec/plan-tensors.ts";
import { compareNames } from "./binary-index.ts";
import { aprenderId, fits } from "./dtypes.ts";
import { headerCrcOf } from "./header-crc.ts";
import {
  ALIGNMENT_64,
  CRC_BYTES,
  FLAGS_64,
  HEADER_CRC_OFFSET,
  header64,
  MAX_DIMENSIONS,
  MAX_NAME_BYTES,
} from "./layout.ts";
import { planAprenderMetadata } from "./plan-metadata.ts";

/** A file in the layout that aprender reads, known to the byte but for the tensors' own and the CRC over them. */
export interface AprenderPlan extends WritePlan {
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

/** True for plans of this layout, whoever is asked to write them. */
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
  const entries = planAprenderMetadata({ metadata: content.metadata, tensors, chain, carried, order });
  const hasVocabulary = entries.some(({ key }) => key === "tokenizer.vocabulary" || key === "vocab");
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
    losses,
    notes: [],
  };
}

/** Streams the file; its CRC is taken on the way. Nothing is visible before it was read back. */
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
  throw new UsageError("usage/apr.layout", message, at, { hint: "Leave --layout out for the specification's layout" });
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
    // Bytes are always kept; that they are no numbers to other readers is a loss that somebody must accept.
    else stored.push({ tensor, nameBytes, id: aprenderId("U8") ?? 0, shape: [tensor.byteLength] });
    if (id === undefined || !isShort || dtype === "BOOL") carried.push([name, dtype, shape]);
    if (id === undefined || !isShort) losses.push({ name, reason: lossReason(tensor) });
  }
  return { stored, carried, losses };
}

/** Undefined where aprender has no such type, or where the bytes are not what it would expect of it. */
function idOf(tensor: Tensor): number | undefined {
  // A boolean is a byte; what it means is kept in tare.origin.
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

/** Header, metadata and index, each filled up to 64 bytes. */
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
