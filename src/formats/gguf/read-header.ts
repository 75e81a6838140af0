import { FormatError, UnsupportedError } from "../../base/errors.ts";
import { alignUp, isPowerOfTwo } from "../../base/integers.ts";
import { checkLimit } from "../../base/limits.ts";
import { Turns } from "../../base/turns.ts";
import type { Source } from "../../bytes/source.ts";
import type { Finding } from "../../model/finding.ts";
import type { Metadata } from "../../model/metadata.ts";
import type { ByteOrder } from "../../struct/layout.ts";
import { checkDataLayout, type DataLayout, nameWarnings } from "./data-layout.ts";
import { HeaderWindow } from "./header-window.ts";
import { decodeKeyValues, type KeyValueExtent, keyWarnings, readKeyValues } from "./key-values.ts";
import {
  ALIGNMENT_KEY,
  DEFAULT_ALIGNMENT,
  type FileHeader,
  fileHeader,
  KV_MIN_BYTES,
  TENSOR_INFO_MIN_BYTES,
} from "./layout.ts";
import type { GgufLimits } from "./limits.ts";
import { readTensorInfos, type TensorInfo } from "./tensor-infos.ts";

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
  /** Where tensor offsets count from. */
  readonly dataStart: number;
  readonly layout: DataLayout;
  readonly warnings: readonly Finding[];
}

/** Reads the header in at most one read and one stream. */
export async function readHeader(
  source: Source,
  limits: GgufLimits,
  signal: AbortSignal | undefined,
): Promise<GgufHeader> {
  const window = await HeaderWindow.open(source, { maxBytes: limits.headerBytes, signal });
  try {
    return await readSections(window, limits, new Turns(signal));
  } finally {
    await window.leave();
  }
}

async function readSections(window: HeaderWindow, limits: GgufLimits, turns: Turns): Promise<GgufHeader> {
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
  checkLimit(headerEnd, limits.headerBytes, "a GGUF header of so many bytes", "limit/gguf.header-bytes", endAt);
  const header = await window.finish(headerEnd);
  const metadata = decodeKeyValues(keyValues, header, { littleEndian: window.littleEndian, label });
  // Without tensors nothing is aligned: ggml takes the end of the header for the start of the data.
  const dataStart = infos.length === 0 ? headerEnd : alignUp(headerEnd, alignment, window.at(headerEnd, "tensor_data"));
  const layout = checkDataLayout(infos, { label, headerEnd, dataStart, alignment, fileBytes });
  const warnings = [...keyWarnings(keyValues, label), ...nameWarnings(infos, label), ...layout.warnings];
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
  // A small number whose low half is empty was written in the other order: 3 reads 0x03000000.
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
  checkLimit(tensorCount, limits.tensors, "so many tensors", "limit/gguf.tensors", window.at(8, "header.tensor_count"));
  const at = window.at(16, "header.metadata_kv_count");
  checkLimit(metadataKvCount, limits.keys, "so many metadata keys", "limit/gguf.keys", at);
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
  checkLimit(alignment, limits.alignment, `${ALIGNMENT_KEY} of so many bytes`, "limit/gguf.alignment", at);
  return alignment;
}
