import type { Bytes } from "../../base/bytes.ts";
import { FormatError, type Location, UnsupportedError } from "../../base/errors.ts";
import { alignUp, isPowerOfTwo, toOffset } from "../../base/integers.ts";
import { checkLimit } from "../../base/limits.ts";
import { encodeUtf8 } from "../../base/text.ts";
import { Turns } from "../../base/turns.ts";
import { OPENING_BYTES } from "../../bytes/layers/opening-read.ts";
import type { Source } from "../../bytes/source.ts";
import type { Finding } from "../../model/finding.ts";
import type { OpenContext } from "../../model/format.ts";
import type { Metadata, MetadataEntry } from "../../model/metadata.ts";
import type { Piece } from "../../model/pieces.ts";
import { ByteWriter } from "../../struct/cursor.ts";
import type { ByteOrder } from "../../struct/layout.ts";
import {
  ALIGNMENT_KEY,
  DEFAULT_ALIGNMENT,
  type FileHeader,
  fileHeader,
  KV_MIN_BYTES,
  TENSOR_INFO_MIN_BYTES,
} from "./layout.ts";
import type { GgufLimits } from "./limits.ts";
import { decodeKeyValues, type Fillable, type KeyValueExtent, keyWarnings, readKeyValues } from "./metadata.ts";
import {
  checkDataLayout,
  type DataLayout,
  nameWarnings,
  readTensorInfos,
  type StoredTensor,
  type TensorInfo,
  zeroWarnings,
} from "./tensors.ts";
import { encodeGgufValue } from "./values.ts";

/** Everything before the weights of one file. */
export interface GgufHeader {
  readonly version: number;
  readonly byteOrder: ByteOrder;
  readonly alignment: number;
  readonly metadata: Metadata;
  readonly keyValues: readonly KeyValueExtent[];
  readonly infos: readonly TensorInfo[];
  readonly infosOffset: number;
  readonly headerEnd: number;
  /** Tensor offsets are relative to this. */
  readonly dataStart: number;
  readonly layout: DataLayout;
  readonly warnings: readonly Finding[];
}

/** Reads the header in at most one read and one stream. */
export async function readHeader(
  source: Source,
  limits: GgufLimits,
  { signal, cutShort }: Pick<OpenContext, "signal" | "cutShort">,
): Promise<GgufHeader> {
  const window = await HeaderWindow.open(source, { maxBytes: limits.headerBytes, signal });
  try {
    return await readSections(window, limits, { turns: new Turns(signal), cutShort });
  } finally {
    await window.leave();
  }
}

async function readSections(
  window: HeaderWindow,
  limits: GgufLimits,
  { turns, cutShort }: Pick<OpenContext, "cutShort"> & { readonly turns: Turns },
): Promise<GgufHeader> {
  const { label, fileBytes } = window;
  const { version, byteOrder } = checkVersion(window);
  window.setByteOrder(byteOrder);
  const code = "format/gguf.header";
  const fixed = fileHeader.decode(window.bytes, { source: label, path: "header", offset: 0 }, { byteOrder, code });
  checkCounts(fixed, window, limits);
  const range = { offset: fileHeader.byteLength, count: fixed.metadataKvCount };
  const keyValues = await readKeyValues(window, range, limits, turns);
  const infosOffset = keyValues.at(-1)?.end ?? fileHeader.byteLength;
  const alignment = readAlignment(keyValues, window, limits);
  const { infos, end: headerEnd } = await readTensorInfos(
    window,
    { offset: infosOffset, count: fixed.tensorCount, alignment },
    limits,
    turns,
  );
  const endAt = window.at(headerEnd, "tensor_infos");
  checkLimit(headerEnd, limits.headerBytes, "a GGUF header of this many bytes", "limit/gguf.header-bytes", endAt);
  const header = await window.finish(headerEnd);
  const metadata = decodeKeyValues(keyValues, header, { littleEndian: window.littleEndian, label });
  // Without tensors nothing is aligned: ggml takes the end of the header as the start of the data.
  const dataStart = infos.length === 0 ? headerEnd : alignUp(headerEnd, alignment, window.at(headerEnd, "tensor_data"));
  const layout = checkDataLayout(infos, { label, headerEnd, dataStart, alignment, fileBytes, cutShort });
  const warnings = [...keyWarnings(keyValues, label), ...nameWarnings(infos, label), ...layout.warnings];
  warnings.push(...zeroWarnings(header, infos, label));
  return {
    version,
    byteOrder,
    alignment,
    metadata,
    keyValues,
    infos,
    infosOffset,
    headerEnd,
    dataStart,
    layout,
    warnings,
  };
}

function checkVersion(window: HeaderWindow): { readonly version: number; readonly byteOrder: ByteOrder } {
  if (window.filled < 8) {
    fileHeader.decode(window.bytes, { source: window.label, path: "header" }, { code: "format/gguf.header" });
  }
  const stored = window.u32(4);
  // A small number whose low half is zero was written in the other byte order: 3 reads as 0x03000000.
  const byteOrder: ByteOrder = stored !== 0 && (stored & 0xffff) === 0 ? "big" : "little";
  const version = byteOrder === "big" ? ((stored >>> 24) | ((stored >>> 8) & 0xff00)) >>> 0 : stored;
  if (version === 3 || (version === 2 && byteOrder === "little")) return { version, byteOrder };
  const at = window.at(4, "header.version");
  if (version === 1) {
    const message = "Cannot open GGUF version 1: version must be 2 or 3";
    throw new UnsupportedError("unsupported/gguf.version-1", message, at, {
      hint: "Version 1 was replaced within weeks in August 2023 and llama.cpp dropped it too; get a newer copy of the model",
    });
  }
  const order = byteOrder === "big" ? " in big-endian order" : "";
  const message = `Cannot open GGUF file: version must be 2 or 3, found ${version}${order}`;
  throw new UnsupportedError("unsupported/gguf.version", message, at, {
    hint: "The file is damaged or newer than this tool: update tare",
  });
}

function checkCounts(fixed: FileHeader, window: HeaderWindow, limits: GgufLimits): void {
  const left = window.fileBytes - fileHeader.byteLength;
  const { tensorCount, metadataKvCount } = fixed;
  // Products of numbers below 2^53 with 24 stay comparable: a rounded product is still far above `left`.
  if (tensorCount * TENSOR_INFO_MIN_BYTES + metadataKvCount * KV_MIN_BYTES > left) {
    const message = `Cannot read GGUF header: ${tensorCount} tensors and ${metadataKvCount} keys must fit into ${left} bytes`;
    throw new FormatError("format/gguf.count", message, window.at(8, "header.tensor_count"), {
      hint: "The file is cut short or damaged; download it again",
    });
  }
  checkLimit(
    tensorCount,
    limits.tensors,
    "this many tensors",
    "limit/gguf.tensors",
    window.at(8, "header.tensor_count"),
  );
  const at = window.at(16, "header.metadata_kv_count");
  checkLimit(metadataKvCount, limits.keys, "this many metadata keys", "limit/gguf.keys", at);
}

function readAlignment(keyValues: readonly KeyValueExtent[], window: HeaderWindow, limits: GgufLimits): number {
  const index = keyValues.findIndex(({ key }) => key === ALIGNMENT_KEY);
  const extent = keyValues[index];
  if (extent === undefined) return DEFAULT_ALIGNMENT;
  const at = window.at(extent.valueOffset, `metadata_kv[${index}].value`);
  const type = window.u32(extent.valueOffset);
  if (type !== 4) {
    const message = `Cannot use ${ALIGNMENT_KEY}: must be stored as u32 (type 4), found type ${type}`;
    throw new FormatError("format/gguf.alignment", message, at);
  }
  const alignment = window.u32(extent.valueOffset + 4);
  if (!isPowerOfTwo(alignment)) {
    const message = `Cannot use ${ALIGNMENT_KEY}: must be a power of two, found ${alignment}`;
    throw new FormatError("format/gguf.alignment", message, at);
  }
  checkLimit(alignment, limits.alignment, `${ALIGNMENT_KEY} of this many bytes`, "limit/gguf.alignment", at);
  return alignment;
}

/** A tensor and the offset of its bytes, from the start of the data. */
export interface PlacedTensor extends StoredTensor {
  readonly offset: number;
}

interface HeaderContent {
  readonly version: 2 | 3;
  readonly entries: readonly MetadataEntry[];
  readonly tensors: readonly PlacedTensor[];
}

/** Values of this size or more are written from their own memory instead of being copied together. */
const LARGE_VALUE = 64 << 10;

/** The header as pieces: small parts are joined, large values are views of the reader's bytes. */
export function headerPieces({ version, entries, tensors }: HeaderContent): {
  readonly pieces: readonly Piece[];
  readonly byteLength: number;
} {
  const pieces: Piece[] = [];
  const writer = new ByteWriter(4096);
  const flush = (): void => {
    if (writer.byteLength > 0) pieces.push({ kind: "bytes", bytes: writer.take() });
  };
  writer.bytes(fileHeader.encode({ version, tensorCount: tensors.length, metadataKvCount: entries.length }));
  for (const { key, value } of entries) {
    writeText(writer, key);
    const bytes = encodeGgufValue(value);
    if (bytes.byteLength < LARGE_VALUE) {
      writer.bytes(bytes);
    } else {
      flush();
      pieces.push({ kind: "bytes", bytes });
    }
  }
  for (const tensor of tensors) writeInfo(writer, tensor);
  flush();
  let byteLength = 0;
  for (const piece of pieces) if (piece.kind === "bytes") byteLength += piece.bytes.byteLength;
  return { pieces, byteLength };
}

function writeText(writer: ByteWriter, text: string): void {
  const bytes = encodeUtf8(text);
  writer.u64(bytes.byteLength);
  writer.bytes(bytes);
}

function writeInfo(writer: ByteWriter, { tensor, typeId, shape, offset }: PlacedTensor): void {
  writeText(writer, tensor.name);
  writer.u32(shape.length);
  for (const dimension of [...shape].reverse()) writer.u64(dimension);
  writer.u32(typeId);
  writer.u64(offset);
}

/**
 * Capacity to allocate when the opening read is not enough. Zeroed memory costs nothing until it is written, so one
 * large step is cheaper than doubling a few times. A vocabulary of 128 000 tokens with its merges takes 9 MB.
 */
const FIRST_ROOM = 16 << 20;

interface WindowOptions {
  /** The limit `headerBytes`. */
  readonly maxBytes: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * The header from byte 0 on, contiguous, growing as needed: first the opening read, then one stream that is left as
 * soon as the header ends. Reads are synchronous; only `fill` waits, and only if bytes are missing. Nothing is read or
 * allocated for a length that reaches beyond the end of the file.
 */
class HeaderWindow implements Fillable {
  readonly label: string;
  /** Bytes of the whole file. */
  readonly fileBytes: number;
  readonly #source: Source;
  readonly #options: WindowOptions;
  #bytes: Bytes;
  #view: DataView<ArrayBuffer>;
  #filled: number;
  #littleEndian = true;
  #stream: AsyncIterator<Bytes> | undefined;

  private constructor(source: Source, opening: Bytes, options: WindowOptions) {
    this.#source = source;
    this.#options = options;
    this.label = source.label;
    this.fileBytes = source.byteLength;
    this.#bytes = opening;
    this.#filled = opening.byteLength;
    this.#view = viewOf(opening);
  }

  static async open(source: Source, options: WindowOptions): Promise<HeaderWindow> {
    const opening = await source.read(0, Math.min(OPENING_BYTES, source.byteLength), { signal: options.signal });
    return new HeaderWindow(source, opening, options);
  }

  /** The number of bytes, from 0, that can be read without waiting. */
  get filled(): number {
    return this.#filled;
  }

  /** Everything read so far. The next `fill` may replace this view by a larger one. */
  get bytes(): Bytes {
    return this.#bytes.subarray(0, this.#filled);
  }

  get littleEndian(): boolean {
    return this.#littleEndian;
  }

  /** A view of `bytes` and possibly spare capacity after them; stale after the next `fill`. */
  get view(): DataView<ArrayBuffer> {
    return this.#view;
  }

  setByteOrder(order: ByteOrder): void {
    this.#littleEndian = order === "little";
  }

  u32(offset: number): number {
    return this.#view.getUint32(offset, this.#littleEndian);
  }

  /** A length, count or offset. `path` is called only for the error that it is beyond 2^53 - 1. */
  u64(offset: number, path: () => string): number {
    const low = this.#view.getUint32(offset + (this.#littleEndian ? 0 : 4), this.#littleEndian);
    const high = this.#view.getUint32(offset + (this.#littleEndian ? 4 : 0), this.#littleEndian);
    return high <= 0x1f_ffff ? high * 0x1_0000_0000 + low : toOffset(low, high, this.at(offset, path()));
  }

  /** A view into the window as it is now. */
  slice(start: number, end: number): Bytes {
    return this.#bytes.subarray(start, end);
  }

  at(offset: number, path: string): Location {
    return { source: this.label, offset, path };
  }

  /** Refuses `byteLength` bytes at `offset` if the file cannot hold them, before anything is read for them. */
  checkRoom(offset: number, byteLength: number, path: () => string): void {
    if (!(byteLength <= this.fileBytes - offset)) throw this.#beyondEnd(offset, byteLength, path());
  }

  /** Makes `byteLength` bytes at `offset`, and all before them, readable. `path` names the value being read. */
  async fill(offset: number, byteLength: number, path: () => string): Promise<void> {
    const end = offset + byteLength;
    if (end <= this.#filled) return;
    this.checkRoom(offset, byteLength, path);
    const at = this.at(offset, path());
    checkLimit(end, this.#options.maxBytes, "a GGUF header of this many bytes", "limit/gguf.header-bytes", at);
    this.#stream ??= this.#source.stream(this.#filled, { signal: this.#options.signal })[Symbol.asyncIterator]();
    while (this.#filled < end) {
      const piece = await this.#stream.next();
      if (piece.done === true) throw this.#beyondEnd(offset, byteLength, path());
      this.#append(piece.value);
    }
  }

  /** Leaves the stream and releases unused capacity; the first `headerEnd` bytes stay. */
  async finish(headerEnd: number): Promise<Bytes> {
    await this.leave();
    const kept = this.#bytes.subarray(0, headerEnd);
    // Spare capacity was never written to, so a copy only pays if most of it is unused.
    return this.#bytes.byteLength > Math.max(OPENING_BYTES, 2 * headerEnd) ? kept.slice() : kept;
  }

  /** Ends the stream, if there is one. */
  async leave(): Promise<void> {
    const stream = this.#stream;
    this.#stream = undefined;
    await stream?.return?.();
  }

  /** Capacity grows with the bytes that arrived, never with what the header claims. */
  #append(piece: Bytes): void {
    const filled = this.#filled + piece.byteLength;
    if (filled > this.#bytes.byteLength) {
      const capacity = Math.min(Math.max(filled, 2 * this.#bytes.byteLength, FIRST_ROOM), this.fileBytes);
      const grown = new Uint8Array(capacity);
      grown.set(this.#bytes.subarray(0, this.#filled));
      this.#bytes = grown;
      this.#view = viewOf(grown);
    }
    this.#bytes.set(piece, this.#filled);
    this.#filled = filled;
  }

  #beyondEnd(offset: number, byteLength: number, path: string): FormatError {
    const left = Math.max(0, this.fileBytes - offset);
    const message = `Cannot read GGUF header: ${path} needs ${byteLength} bytes at ${offset}, the file has ${left} left`;
    return new FormatError("format/gguf.header-bounds", message, this.at(offset, path), {
      hint: "The file is cut short or damaged; download it again",
    });
  }
}

function viewOf(bytes: Bytes): DataView<ArrayBuffer> {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
