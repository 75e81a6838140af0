import type { Bytes } from "../../../base/bytes.ts";
import { FormatError } from "../../../base/errors.ts";
import { checkLimit } from "../../../base/limits.ts";
import { decodeUtf8 } from "../../../base/text.ts";
import type { Source } from "../../../bytes/source.ts";
import { arrayValue, type MetadataValue } from "../../../model/metadata.ts";
import { Cursor } from "../../../struct/cursor.ts";
import type { Tolerated } from "./details.ts";
import { WHISPER_FLAGS, type WhisperHeader } from "./layout.ts";
import type { WildLimits } from "./limits.ts";
import { type Region, readRegion } from "./read-region.ts";

/** What whisper.apr keeps behind the weights. */
export interface WhisperExtras {
  readonly vocab?: MetadataValue;
  readonly merges?: MetadataValue;
  readonly filterbank?: { readonly values: MetadataValue; readonly shape: MetadataValue };
  readonly regions: readonly Region[];
}

export interface ExtrasPlace {
  readonly header: WhisperHeader;
  /** Where the weights end. */
  readonly offset: number;
  /** Where the checksum begins. */
  readonly end: number;
  readonly limits: WildLimits;
  readonly tolerated: Tolerated;
  readonly signal?: AbortSignal | undefined;
}

/** A block's own length, in front of it. */
const LENGTH_BYTES = 4;

/** Vocabulary, then filterbank, each behind its length; which of them there are, the header's flags say. */
export async function readExtras(source: Source, place: ExtrasPlace): Promise<WhisperExtras> {
  const { header, end, tolerated } = place;
  const regions: Region[] = [];
  let { offset } = place;
  let extras: Omit<WhisperExtras, "regions"> = {};
  if (WHISPER_FLAGS.has(header.flags, "VOCAB")) {
    const { cursor, region } = await openBlock(source, offset, { ...place, path: "vocab" });
    extras = { ...extras, ...readVocab(cursor, place.limits) };
    regions.push(region);
    offset += region.byteLength;
  }
  if (WHISPER_FLAGS.has(header.flags, "FILTERBANK")) {
    const { cursor, region } = await openBlock(source, offset, { ...place, path: "filterbank" });
    extras = { ...extras, filterbank: readFilterbank(cursor, place.limits) };
    regions.push(region);
    offset += region.byteLength;
  }
  if (offset !== end) {
    const message = `${end - offset} bytes stand before the checksum that nothing describes`;
    tolerated.fault("format/apr.trailing-bytes", message, { source: source.label, offset, path: "crc32" });
  }
  return { ...extras, regions };
}

async function openBlock(
  source: Source,
  offset: number,
  { path, end, limits, signal }: ExtrasPlace & { readonly path: string },
): Promise<{ readonly cursor: Cursor; readonly region: Region }> {
  const at = { source: source.label, offset, path };
  const head = await readRegion(source, { offset, byteLength: LENGTH_BYTES, path }, signal);
  const byteLength = new DataView(head.buffer, head.byteOffset).getUint32(0, true);
  const start = offset + LENGTH_BYTES;
  if (start + byteLength > end) {
    const message = `Cannot read whisper.apr: ${path} must end at or before ${end}, found ${start + byteLength}`;
    throw new FormatError("format/apr.truncated", message, at);
  }
  checkLimit(byteLength, limits.metadataBytes, `bytes of whisper.apr ${path}`, "limit/apr.metadata-bytes", at);
  const bytes = await readRegion(source, { offset: start, byteLength, path }, signal);
  const cursor = new Cursor(bytes, {
    source: source.label,
    base: start,
    code: "format/apr.extras",
    what: `whisper.apr ${path}`,
    path,
  });
  return { cursor, region: { offset, byteLength: LENGTH_BYTES + byteLength, path } };
}

/** Tokens and merges are byte strings: byte-level vocabularies cut characters apart. */
function readVocab(cursor: Cursor, limits: WildLimits): Pick<WhisperExtras, "vocab" | "merges"> {
  const tokenCount = countOf(cursor, "n_tokens", 2, limits);
  const mergeCount = cursor.u32("n_merges");
  const tokens = Array.from({ length: tokenCount }, (_, i) => readText(cursor, `tokens[${i}]`));
  if (mergeCount * 4 > cursor.remaining) {
    const message = `Cannot read whisper.apr vocab: ${mergeCount} merges of at least 4 bytes must follow, ${cursor.remaining} bytes are left`;
    throw new FormatError("format/apr.extras", message, cursor.at("n_merges"));
  }
  checkLimit(2 * mergeCount, limits.metadataValues, "merges", "limit/apr.extras", cursor.at("n_merges"));
  const merges = Array.from({ length: mergeCount }, (_, i) => {
    return arrayValue([readText(cursor, `merges[${i}][0]`), readText(cursor, `merges[${i}][1]`)], "string");
  });
  return {
    vocab: arrayValue(tokens, "string"),
    ...(merges.length === 0 ? {} : { merges: arrayValue(merges, "array") }),
  };
}

function readText(cursor: Cursor, path: string): MetadataValue {
  const bytes: Bytes = cursor.bytes(cursor.u16(path), path);
  const value = decodeUtf8(bytes);
  if (value !== undefined) return { type: "string", value };
  return { type: "string", value: new TextDecoder().decode(bytes), raw: bytes.slice() };
}

function readFilterbank(cursor: Cursor, limits: WildLimits): NonNullable<WhisperExtras["filterbank"]> {
  const mels = countOf(cursor, "n_mels", 0, limits);
  const frequencies = cursor.u32("n_freqs");
  if (mels * frequencies * 4 !== cursor.remaining) {
    const message = `Cannot read whisper.apr filterbank: ${mels} x ${frequencies} values must take ${cursor.remaining} bytes`;
    throw new FormatError("format/apr.extras", message, cursor.at("n_freqs"));
  }
  checkLimit(mels * frequencies, limits.metadataValues, "filterbank values", "limit/apr.extras", cursor.at());
  const values = Array.from(
    { length: mels * frequencies },
    (): MetadataValue => ({ type: "f32", value: cursor.f32() }),
  );
  const shape = [mels, frequencies].map((value): MetadataValue => ({ type: "u32", value }));
  return { values: arrayValue(values, "f32"), shape: arrayValue(shape, "u32") };
}

function countOf(cursor: Cursor, path: string, minBytes: number, limits: WildLimits): number {
  const at = cursor.at(path);
  const count = cursor.u32(path);
  checkLimit(count, limits.metadataValues, `whisper.apr ${path}`, "limit/apr.extras", at);
  if (count * minBytes <= cursor.remaining) return count;
  const message = `Cannot read whisper.apr: ${count} records of at least ${minBytes} bytes must follow, ${cursor.remaining} bytes are left`;
  throw new FormatError("format/apr.extras", message, at);
}
