import type { Bytes } from "../../base/bytes.ts";
import { FormatError, LimitError, type Location } from "../../base/errors.ts";
import { checkLimit, type LimitOverrides, resolveLimits } from "../../base/limits.ts";
import { withHead } from "../../bytes/layers/prefix.ts";
import { sliceSource } from "../../bytes/slice.ts";
import type { Source } from "../../bytes/source.ts";
import { type Header, parseHeader, type SafetensorsLimits } from "./header.ts";
import { checkLayout } from "./layout.ts";
import { SAFETENSORS_LIMITS } from "./limits.ts";
import { LENGTH_BYTES } from "./sniff.ts";

/** One read of this length serves nearly every header; sources that were sniffed have it in memory. */
const OPENING_BYTES = 256 * 1024;

/** How a header is to be read. */
export interface ReadHeaderOptions {
  readonly limits: LimitOverrides;
  readonly signal?: AbortSignal | undefined;
  /** For `tensor.file`, in sets. */
  readonly file?: string | undefined;
}

/** The limits in force for this format. */
export function safetensorsLimits(overrides: LimitOverrides): SafetensorsLimits {
  return resolveLimits("safetensors", SAFETENSORS_LIMITS, overrides);
}

/** The first bytes of a file, as many as nearly every header needs. */
export function readOpening(source: Source, signal: AbortSignal | undefined): Promise<Bytes> {
  return source.read(0, Math.min(source.byteLength, OPENING_BYTES), { signal });
}

/** Reads and checks everything but the tensor data; a header that ends beyond `opening` costs one more read. */
export async function readHeader(source: Source, opening: Bytes, options: ReadHeaderOptions): Promise<Header> {
  const limits = safetensorsLimits(options.limits);
  const headerLength = decodeLength(opening, source, limits);
  const dataStart = LENGTH_BYTES + headerLength;
  const bytes =
    dataStart <= opening.byteLength
      ? opening.subarray(LENGTH_BYTES, dataStart)
      : await withHead(source, opening).read(LENGTH_BYTES, headerLength, { signal: options.signal });
  const header = parseHeader(bytes, {
    source: source.label,
    limits,
    file: options.file,
    reader: { source: (tensor) => sliceSource(source, tensor.offset, tensor.byteLength) },
  });
  checkLayout(header, source.byteLength);
  return header;
}

/** The length field, refused before anything of that length is read. */
function decodeLength(opening: Bytes, source: Source, limits: SafetensorsLimits): number {
  const at: Location = { source: source.label, offset: 0, path: "header_length" };
  if (opening.byteLength < LENGTH_BYTES) {
    const message = `Cannot read SafeTensors file: must have at least ${LENGTH_BYTES} bytes, found ${opening.byteLength}`;
    throw new FormatError(
      "format/safetensors.too-short",
      message,
      { ...at, offset: opening.byteLength },
      {
        hint: "The file was cut short: download or copy it again",
      },
    );
  }
  const view = new DataView(opening.buffer, opening.byteOffset, LENGTH_BYTES);
  const high = view.getUint32(4, true);
  const length = high * 0x1_0000_0000 + view.getUint32(0, true);
  if (high > 0x1fffff) {
    const message = `Cannot accept SafeTensors header: its length must be <= ${limits.headerBytes}, found ${view.getBigUint64(0, true)}`;
    throw new LimitError("limit/safetensors.header-bytes", message, at);
  }
  checkLimit(length, limits.headerBytes, "SafeTensors header bytes", "limit/safetensors.header-bytes", at);
  if (length <= source.byteLength - LENGTH_BYTES) return length;
  const message = `Cannot read SafeTensors header: its ${length} bytes must end inside the file, found ${source.byteLength - LENGTH_BYTES} bytes after the length`;
  throw new FormatError("format/safetensors.header-length", message, at, {
    hint: "The file was cut short, or is no SafeTensors file",
  });
}
