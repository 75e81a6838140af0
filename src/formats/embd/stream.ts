import type { Bytes } from "../../base/bytes.ts";
import { FormatError, type Location } from "../../base/errors.ts";
import { checkedAdd } from "../../base/integers.ts";
import { checkLimit } from "../../base/limits.ts";
import { decodeUtf8, printable } from "../../base/text.ts";
import { sliceSource } from "../../bytes/slice.ts";
import type { Source } from "../../bytes/source.ts";
import type { Shape } from "../../model/dtype.ts";
import { byteLengthOf } from "../../model/dtype.ts";
import type { OpenContext } from "../../model/format.ts";
import { Metadata } from "../../model/metadata.ts";
import { Tensor } from "../../model/tensor.ts";
import { transposedTensor } from "../../model/values/transposed.ts";
import { MAX_DIMENSIONS, STREAM_HEADER_BYTES } from "./layout.ts";
import { type EmbdLimits, embdLimits, type Tolerance } from "./limits.ts";
import { EmbdModel, type Orientation, type StreamDetails, type StreamRecord, type StreamVocabulary } from "./model.ts";
import { uniqueTensors } from "./spec/tensors.ts";
import { specialsByText, TokenList, vocabularyMetadata } from "./spec/vocabulary.ts";

interface StreamOptions {
  readonly tolerance: Tolerance;
  /** How linear weights are stored, if shapes cannot tell. */
  readonly orientation?: Orientation | undefined;
}

/** The least bytes that a record takes: name_len, ndim and one dimension. */
const RECORD_BYTES = 12;

/** Opens the output of cpp_embedder's converter: walks from record to record, and reads no values. */
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
 * Square matrices alone cannot tell the orientation; a warning says so. A whole encoder of them is assumed to come from
 * cpp_embedder's converter, which writes [in, out]; anything else is shown as stored.
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

interface VocabularyContext {
  readonly limits: EmbdLimits;
  readonly tolerance: Tolerance;
  readonly signal: AbortSignal | undefined;
}

const LENGTH_BYTES = 4;
/** The original library refuses more. */
const ORIGINAL_TOKENS = 100_000;
const CUT = "The file was cut short: download or copy it again";

/** Reads the tokens, from `offset` to the end of the file. Special ids come from the spelling of the tokens. */
async function readStreamVocabulary(
  source: Source,
  offset: number,
  { limits, tolerance, signal }: VocabularyContext,
): Promise<StreamVocabulary> {
  const room = source.byteLength - offset;
  const at: Location = { source: source.label, offset, path: "vocab_count" };
  if (room < LENGTH_BYTES) {
    const message = `Cannot read EMBD stream: vocab_count must follow at ${offset}, found ${room} bytes`;
    throw new FormatError("format/embd.truncated", message, at, { hint: CUT });
  }
  checkLimit(room, limits.vocabularyBytes, "EMBD vocabulary bytes", "limit/embd.vocabulary-bytes", at);
  const bytes = await source.read(offset, room, { signal });
  const count = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  if (count * LENGTH_BYTES > room - LENGTH_BYTES) {
    const message = `Cannot read EMBD stream: ${count} tokens need at least ${count * LENGTH_BYTES} bytes, found ${room - LENGTH_BYTES}`;
    throw new FormatError("format/embd.truncated", message, at, { hint: CUT });
  }
  checkLimit(count, limits.tokens, "EMBD tokens", "limit/embd.tokens", at);
  const { tokens, end } = walk(bytes, count, { ...at, maxBytes: limits.streamTextBytes });
  if (count > ORIGINAL_TOKENS) {
    const message = `The vocabulary has ${count} tokens: the original library refuses more than ${ORIGINAL_TOKENS}`;
    tolerance.warnings.push({ severity: "note", code: "format/embd.vocabulary-size", message, at });
  }
  if (end < room) {
    const where = { source: source.label, offset: offset + end, path: "vocab" };
    const message = `The file must end with its vocabulary: found ${room - end} bytes after it`;
    tolerance.warn(new FormatError("format/embd.trailing-bytes", message, where));
  }
  return { tokens, special: specialsByText(tokens), offset, end: offset + end };
}

function walk(
  bytes: Bytes,
  count: number,
  place: Location & { readonly maxBytes: number },
): { readonly tokens: TokenList; readonly end: number } {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const starts = new Uint32Array(count);
  const lengths = new Uint32Array(count);
  let position = LENGTH_BYTES;
  for (let id = 0; id < count; id++) {
    const left = bytes.byteLength - position - LENGTH_BYTES;
    const length = left < 0 ? 0 : view.getUint32(position, true);
    if (left < length) {
      const at = { source: place.source, offset: (place.offset ?? 0) + position, path: `vocab[${id}]` };
      const message = `Cannot read EMBD stream: token ${id} must have ${length} bytes, found ${Math.max(0, left)}`;
      throw new FormatError("format/embd.truncated", message, at, { hint: CUT });
    }
    if (length > place.maxBytes) {
      const at = { source: place.source, offset: (place.offset ?? 0) + position, path: `vocab[${id}]` };
      checkLimit(length, place.maxBytes, "EMBD token bytes", "limit/embd.text-bytes", at);
    }
    starts[id] = position + LENGTH_BYTES;
    lengths[id] = length;
    position += LENGTH_BYTES + length;
  }
  return { tokens: new TokenList(bytes, starts, lengths), end: position };
}

/** Length of one read on the way from record to record. Small tensors lie inside it, so they cost no extra read. */
const WINDOW_BYTES = 32 << 10;

/** Serves small reads at growing offsets from a window that moves along. */
class StreamWindow {
  readonly #source: Source;
  readonly #signal: AbortSignal | undefined;
  #start = 0;
  #bytes: Bytes;

  constructor(source: Source, opening: Bytes, signal: AbortSignal | undefined) {
    this.#source = source;
    this.#bytes = opening;
    this.#signal = signal;
  }

  /** Exactly these bytes. If the file ends before, the error has the field's path. */
  async take(offset: number, byteLength: number, path: string): Promise<Bytes> {
    const { label, byteLength: size } = this.#source;
    if (offset + byteLength > size) {
      const message = `Cannot read EMBD stream: ${byteLength} bytes must follow at ${offset}, found ${Math.max(0, size - offset)}`;
      const hint = "The file was cut short: download or copy it again";
      throw new FormatError("format/embd.truncated", message, { source: label, offset, path }, { hint });
    }
    if (offset < this.#start || offset + byteLength > this.#start + this.#bytes.byteLength) {
      const length = Math.min(Math.max(byteLength, WINDOW_BYTES), size - offset);
      this.#bytes = await this.#source.read(offset, length, { signal: this.#signal });
      this.#start = offset;
    }
    return this.#bytes.subarray(offset - this.#start, offset - this.#start + byteLength);
  }

  async u32(offset: number, path: string): Promise<number> {
    const bytes = await this.take(offset, 4, path);
    return new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  }
}

export interface ShapedTensor {
  readonly name: string;
  readonly shape: Shape;
}

const WEIGHT = /^encoder\..*\.weight$/;
const INTERMEDIATE = /^encoder\.layer\.\d+\.intermediate\.dense\.weight$/;
const WORDS = "embeddings.word_embeddings.weight";

/** The matrices that the converter of the stream layout transposes: every matrix of the encoder. */
function isLinear({ name, shape }: ShapedTensor): boolean {
  return shape.length === 2 && WEIGHT.test(name);
}

/**
 * The orientation, if shapes leave no doubt: a bias has as many elements as its weight has outputs, and a word vector
 * as many as the intermediate layer has inputs. Undefined if all matrices are square, or if they disagree.
 */
export function detectOrientation(tensors: readonly ShapedTensor[]): Orientation | undefined {
  const shapes = new Map(tensors.map(({ name, shape }) => [name, shape]));
  const hidden = shapes.get(WORDS)?.[1];
  const found = new Set<Orientation>();
  for (const tensor of tensors) {
    if (!isLinear(tensor)) continue;
    const bias = shapes.get(tensor.name.replace(/weight$/, "bias"));
    const byBias = bias?.length === 1 ? orientationFor(tensor.shape, { outputs: bias[0] }) : undefined;
    const isIntermediate = INTERMEDIATE.test(tensor.name);
    const byHidden = isIntermediate ? orientationFor(tensor.shape, { inputs: hidden }) : undefined;
    for (const orientation of [byBias, byHidden]) if (orientation !== undefined) found.add(orientation);
  }
  const [orientation] = found;
  return found.size === 1 ? orientation : undefined;
}

/** A BERT encoder whose feed-forward block is as wide as its vectors. */
function isSquareEncoder(tensors: readonly ShapedTensor[]): boolean {
  const hidden = tensors.find(({ name }) => name === WORDS)?.shape[1];
  const linear = tensors.filter(isLinear);
  return (
    linear.some(({ name }) => INTERMEDIATE.test(name)) &&
    linear.every(({ shape }) => shape.every((side) => side === hidden))
  );
}

interface Known {
  readonly inputs?: number | undefined;
  readonly outputs?: number | undefined;
}

function orientationFor([first, second]: Shape, { inputs, outputs }: Known): Orientation | undefined {
  if (first === second) return undefined;
  if (first === outputs || second === inputs) return second === outputs || first === inputs ? undefined : "out_in";
  return second === outputs || first === inputs ? "in_out" : undefined;
}
