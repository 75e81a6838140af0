import type { Bytes } from "../../base/bytes.ts";
import { FormatError, type Location } from "../../base/errors.ts";
import { checkedAdd } from "../../base/integers.ts";
import { checkLimit } from "../../base/limits.ts";
import { decodeUtf8, printable } from "../../base/text.ts";
import { sliceSource } from "../../bytes/slice.ts";
import type { Source } from "../../bytes/source.ts";
import { byteLengthOf } from "../../model/dtype.ts";
import type { OpenContext } from "../../model/format.ts";
import { Metadata } from "../../model/metadata.ts";
import type { Shape } from "../../model/shape.ts";
import { Tensor } from "../../model/tensor.ts";
import { transposedTensor } from "../../model/transposed-tensor.ts";
import { STREAM_HEADER_BYTES } from "./detect.ts";
import { EmbdModel } from "./embd-model.ts";
import { uniqueTensors } from "./index-rules.ts";
import { MAX_DIMENSIONS } from "./layout.ts";
import { type EmbdLimits, embdLimits } from "./limits.ts";
import { detectOrientation, isLinear, isSquareEncoder, type Orientation } from "./orientation.ts";
import { readStreamVocabulary, type StreamVocabulary } from "./stream-vocabulary.ts";
import { StreamWindow } from "./stream-window.ts";
import type { Tolerance } from "./tolerance.ts";
import { vocabularyMetadata } from "./vocabulary-entries.ts";

/** A tensor record: name and shape, then its float32 values. */
export interface StreamRecord {
  readonly name: string;
  readonly shape: Shape;
  /** Where name_len stands. */
  readonly offset: number;
  /** Where the values begin. */
  readonly dataOffset: number;
  readonly byteLength: number;
  readonly dtype: "F32";
}

export interface StreamDetails {
  readonly layout: "stream";
  readonly source: Source;
  /** All of them, in the order of the file. */
  readonly records: readonly StreamRecord[];
  readonly vocabulary: StreamVocabulary;
  /** "in_out" where the matrices of the encoder are shown transposed. */
  readonly orientation: Orientation | undefined;
}

export interface StreamOptions {
  readonly tolerance: Tolerance;
  /** How linear weights are stored, where shapes cannot tell. */
  readonly orientation?: Orientation | undefined;
}

/** The least that a record takes: name_len, ndim and one dimension. */
const RECORD_BYTES = 12;

/** Opens what cpp_embedder's converter writes: walks from record to record, reading no values. */
export async function openStream(
  source: Source,
  opening: Bytes,
  context: OpenContext,
  { tolerance, orientation: asked }: StreamOptions,
): Promise<EmbdModel> {
  const limits = embdLimits(context.limits);
  const window = new StreamWindow(source, opening, context.signal);
  const { records, end } = await readRecords(source, window, limits);
  const vocabulary = await readStreamVocabulary(source, end, { limits, tolerance, signal: context.signal });
  const at = (index: number): Location => recordAt(source, records[index]?.offset ?? 0, index);
  const unique = uniqueTensors(records, at, tolerance);
  const orientation = asked ?? settleOrientation(records, source.label, tolerance);
  const details: StreamDetails = { layout: "stream", source, records, vocabulary, orientation };
  return new EmbdModel({
    source,
    version: "1",
    metadata: new Metadata(vocabularyMetadata(vocabulary)),
    tensors: unique.map((record) => streamTensor(record, details)),
    warnings: tolerance.warnings,
    facts: [
      ["vocabulary", `${vocabulary.tokens.length} tokens`],
      ["linear weights", orientation === "in_out" ? "stored [in, out], shown as [out, in]" : "shown as stored"],
    ],
    details,
  });
}

async function readRecords(
  source: Source,
  window: StreamWindow,
  limits: EmbdLimits,
): Promise<{ readonly records: StreamRecord[]; readonly end: number }> {
  const countAt = { source: source.label, offset: 8, path: "tensor_count" };
  const count = await window.u32(8, "tensor_count");
  const room = source.byteLength - STREAM_HEADER_BYTES;
  if (count * RECORD_BYTES > room) {
    const message = `Cannot read EMBD stream: ${count} tensors need at least ${count * RECORD_BYTES} bytes, found ${room}`;
    throw new FormatError("format/embd.stream", message, countAt);
  }
  checkLimit(count, limits.tensors, "EMBD tensors", "limit/embd.tensors", countAt);
  const records: StreamRecord[] = [];
  let position = STREAM_HEADER_BYTES;
  for (let i = 0; i < count; i++) {
    const record = await readRecord(source, window, { offset: position, index: i, limits });
    records.push(record);
    position = record.dataOffset + record.byteLength;
  }
  return { records, end: position };
}

interface RecordPlace {
  readonly offset: number;
  readonly index: number;
  readonly limits: EmbdLimits;
}

async function readRecord(source: Source, window: StreamWindow, place: RecordPlace): Promise<StreamRecord> {
  const { offset, index, limits } = place;
  const path = `tensor[${index}]`;
  const nameBytes = await window.u32(offset, `${path}.name_len`);
  const at = recordAt(source, offset, index);
  checkLimit(nameBytes, limits.streamTextBytes, "EMBD name bytes", "limit/embd.text-bytes", at);
  const name = decodeUtf8(await window.take(offset + 4, nameBytes, `${path}.name`));
  if (name === undefined) throw new FormatError("format/embd.utf8", "Cannot read EMBD tensor name: must be UTF-8", at);
  const shapeAt = offset + 4 + nameBytes;
  const ndim = await window.u32(shapeAt, `${path}.ndim`);
  if (ndim < 1 || ndim > MAX_DIMENSIONS) {
    const message = `Cannot read tensor "${printable(name)}": ndim must be 1 to ${MAX_DIMENSIONS}, found ${ndim}`;
    throw new FormatError("format/embd.dimensions", message, { ...at, offset: shapeAt });
  }
  const dims = await window.take(shapeAt + 4, 4 * ndim, `${path}.dims`);
  const view = new DataView(dims.buffer, dims.byteOffset);
  const shape = Array.from({ length: ndim }, (_, i) => view.getUint32(4 * i, true));
  const dimsAt = { ...at, offset: shapeAt + 4, path: `${path}.dims` };
  const byteLength = byteLengthOf("F32", shape, dimsAt) as number;
  const dataOffset = shapeAt + 4 + 4 * ndim;
  if (checkedAdd(dataOffset, byteLength, dimsAt) > source.byteLength) {
    const message = `Cannot read tensor "${printable(name)}": its ${byteLength} bytes must follow, found ${source.byteLength - dataOffset}`;
    throw new FormatError("format/embd.truncated", message, dimsAt);
  }
  return { name, shape, offset, dataOffset, byteLength, dtype: "F32" };
}

function recordAt(source: Source, offset: number, index: number): Location {
  return { source: source.label, offset, path: `tensor[${index}]` };
}

/**
 * Square matrices alone cannot tell, and the reader is told so. An encoder of them is taken for what cpp_embedder's
 * converter writes, [in, out]; anything else is shown as stored.
 */
function settleOrientation(
  records: readonly StreamRecord[],
  label: string,
  tolerance: Tolerance,
): Orientation | undefined {
  const found = detectOrientation(records);
  if (found !== undefined || !records.some(isLinear)) return found;
  const isEncoder = isSquareEncoder(records);
  const assumed = isEncoder
    ? "they are taken for [in, out], as cpp_embedder's converter writes them"
    : "they are shown as stored";
  const message = `The shapes do not tell whether linear weights are [out, in] or [in, out]: ${assumed}`;
  const at = { source: label, offset: STREAM_HEADER_BYTES, path: "tensor" };
  tolerance.warn(new FormatError("format/embd.orientation", message, at));
  return isEncoder ? "in_out" : undefined;
}

function streamTensor(record: StreamRecord, { source, orientation }: StreamDetails): Tensor {
  const { name, shape, dtype, byteLength, dataOffset } = record;
  const tensor = new Tensor(
    { name, dtype, shape, byteLength, offset: dataOffset },
    { source: () => sliceSource(source, dataOffset, byteLength) },
  );
  return orientation === "in_out" && isLinear(record) ? transposedTensor(tensor) : tensor;
}
