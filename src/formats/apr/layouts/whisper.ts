import type { Bytes } from "../../../base/bytes.ts";
import { FormatError, type Location, UnsupportedError } from "../../../base/errors.ts";
import { checkLimit } from "../../../base/limits.ts";
import { decodeUtf8, printable } from "../../../base/text.ts";
import type { Source } from "../../../bytes/source.ts";
import type { DType } from "../../../model/dtype.ts";
import type { OpenContext, Section } from "../../../model/format.ts";
import { arrayValue, Metadata, type MetadataEntry, type MetadataValue, stringValue } from "../../../model/metadata.ts";
import { Cursor } from "../../../struct/cursor.ts";
import { type WildLimits, wildLimits } from "../limits.ts";
import { AprModel } from "../model.ts";
import { fits } from "./dtypes.ts";
import {
  CRC_BYTES,
  WHISPER_FLAGS,
  WHISPER_MODELS,
  type WhisperEntry,
  type WhisperHeader,
  whisperEntry,
  whisperHeader,
} from "./layout.ts";
import { Tolerated, WildDetails, type WildFacts } from "./layout-facts.ts";
import { type Region, readRegion } from "./regions.ts";
import { dataEndOf, placeTensors, type WildEntry } from "./tensors.ts";

/** By `quantization`. */
const QUANTIZATIONS: readonly (DType | undefined)[] = ["F32", "F16", "I8"];
const INT8 = 2;
const SCALE_BYTES = 4;

/** What upgrading needs besides the tensors: int8 values count in steps of one scale per tensor. */
export class WhisperDetails extends WildDetails {
  /** Value of one step, by tensor name; empty if the weights are floats. */
  readonly scales: ReadonlyMap<string, number>;

  constructor(facts: WildFacts, scales: ReadonlyMap<string, number>) {
    super(facts);
    this.scales = scales;
  }
}

/** Opens whisper.apr's binary APR1. The vocabulary, the filterbank and int8 scales become metadata. */
export async function openWhisper(source: Source, _opening: Bytes, context: OpenContext): Promise<AprModel> {
  const { signal } = context;
  const tolerated = new Tolerated();
  const limits = wildLimits(context.limits);
  const head = await readRegion(source, { offset: 0, byteLength: whisperHeader.byteLength, path: "header" }, signal);
  const header = whisperHeader.decode(head, { source: source.label, offset: 0, path: "header" });
  checkHeader(header, source.label);
  const unknown = WHISPER_FLAGS.unknown(header.flags);
  if (unknown !== 0n) tolerated.lose("flags", `0x${unknown.toString(16)} has no meaning that is known here`);
  const table = {
    offset: whisperHeader.byteLength,
    byteLength: header.tensorCount * whisperEntry.byteLength,
    path: "index",
  };
  const index = await readRegion(source, table, signal);
  const entries = Array.from({ length: header.tensorCount }, (_, i) =>
    decodeEntry(index, i, { source, header, tolerated }),
  );
  const scalesOffset = table.offset + table.byteLength;
  const scales = await readScales(source, entries, { header, offset: scalesOffset, signal });
  const dataOffset = scalesOffset + scales.byteLength;
  const end = source.byteLength - CRC_BYTES;
  if (dataOffset > end) {
    const message = `Cannot read whisper.apr: the data must begin at or before ${end}, found ${dataOffset}`;
    throw new FormatError("format/apr.truncated", message, { source: source.label, offset: end, path: "crc32" });
  }
  const tensors = placeTensors(source, entries, { dataOffset, end, tolerated });
  const extras = await readExtras(source, {
    header,
    offset: dataEndOf(tensors, dataOffset),
    end,
    limits,
    tolerated,
    signal,
  });
  const metadata = whisperMetadata(header, { extras, scales: scales.byName });
  const sections = sectionsOf({ header, scalesOffset, dataOffset, extras, end });
  return new AprModel({
    layout: "whisper",
    version: String(header.version),
    parts: [{ label: source.label, byteLength: source.byteLength, source }],
    metadata: new Metadata(metadata),
    tensors,
    warnings: tolerated.warnings,
    unread: tolerated.losses,
    facts: [["weights", QUANTIZATIONS[header.quantization] ?? `quantisation ${header.quantization}`]],
    details: new WhisperDetails(
      {
        image: source,
        sections,
        checksum: { offset: end, path: "crc32", certainty: "present" },
        faults: tolerated.faults,
      },
      scales.byName,
    ),
  });
}

function checkHeader({ version, compressed }: WhisperHeader, source: string): void {
  if (version !== 1) {
    const message = `Cannot read whisper.apr: version must be 1, found ${version}`;
    throw new UnsupportedError("unsupported/apr.version", message, { source, offset: 4, path: "version" });
  }
  if (compressed === 0) return;
  const message = "Cannot read whisper.apr: compressed weights were announced, but no program ever wrote them";
  throw new UnsupportedError("unsupported/apr.whisper-compressed", message, { source, offset: 8, path: "compressed" });
}

function decodeEntry(
  index: Bytes,
  i: number,
  { source, header, tolerated }: Pick<ExtrasPlace, "header" | "tolerated"> & { readonly source: Source },
): WildEntry {
  const start = i * whisperEntry.byteLength;
  const at = { source: source.label, offset: whisperHeader.byteLength + start, path: `index[${i}]` };
  const entry = whisperEntry.decode(index, at, { start, code: "format/apr.index" });
  const name = textOf(entry.name);
  const { offset, size: byteLength, dimensions } = entry;
  const whole = [entry.shape0, entry.shape1, entry.shape2, entry.shape3];
  tellUnused(name, at, { entry, whole, tolerated });
  const storedType = String(header.quantization);
  const shape = whole.slice(0, dimensions);
  const common = { name, storedType, shape, offset, byteLength, at };
  if (dimensions > whole.length) {
    const message = `Cannot read tensor "${printable(name)}": it must have 0 to 4 dimensions, found ${dimensions}`;
    throw new UnsupportedError("unsupported/apr.whisper-entries", message, at, {
      hint: "Files of 13 to 16 December 2025 have another index, without usable shapes; make the file again",
    });
  }
  const dtype = QUANTIZATIONS[header.quantization];
  if (dtype === undefined) return { ...common, dtype: `UNKNOWN_${header.quantization}`, trust: "unknown" };
  if (fits(dtype as "F32", common, at)) return { ...common, dtype, trust: "known" };
  return { ...common, dtype: `UNKNOWN_${header.quantization}`, trust: "mislabelled" };
}

/** Bytes of an entry that say nothing about the tensor, and a count that its shape contradicts. */
function tellUnused(
  name: string,
  at: Location,
  { entry, whole, tolerated }: { entry: WhisperEntry; whole: readonly number[]; tolerated: Tolerated },
): void {
  const quoted = `"${printable(name)}"`;
  const end = entry.name.indexOf(0);
  const unused = [
    ["reserved", entry.reserved.some((byte) => byte !== 0)],
    ["bytes behind the name", end >= 0 && entry.name.subarray(end).some((byte) => byte !== 0)],
    ["shape behind the last dimension", whole.slice(entry.dimensions).some((dimension) => dimension !== 0)],
  ] as const;
  for (const [what, isSet] of unused) {
    if (!isSet) continue;
    tolerated.warn("format/apr.reserved", `Tensor ${quoted}: ${what} should be zero`, at, { name });
    tolerated.lose(`${what} of ${name}`, "bytes of the index that should be zero have no place elsewhere");
  }
  const count = whole.slice(0, entry.dimensions).reduce((product, dimension) => product * dimension, 1);
  if (count === entry.elementCount || entry.dimensions > whole.length) return;
  const message = `Tensor ${quoted}: its shape has ${count} elements, and the index says ${entry.elementCount}`;
  tolerated.fault("format/apr.tensor-size", message, at, { name });
  tolerated.lose(`element count of ${name}`, `the shape has ${count} elements, and this says ${entry.elementCount}`);
}

/** The text up to the first NUL. The writer cuts after 47 bytes, even inside a character. */
function textOf(bytes: Bytes): string {
  const end = bytes.indexOf(0);
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(end < 0 ? bytes : bytes.subarray(0, end));
}

interface Scales {
  readonly byName: ReadonlyMap<string, number>;
  readonly byteLength: number;
}

/** Only int8 files have the table: one f32 per tensor, in the order of the index. */
async function readScales(
  source: Source,
  entries: readonly WildEntry[],
  place: { readonly header: WhisperHeader; readonly offset: number; readonly signal?: AbortSignal | undefined },
): Promise<Scales> {
  if (place.header.quantization !== INT8) return { byName: new Map(), byteLength: 0 };
  const byteLength = entries.length * SCALE_BYTES;
  const bytes = await readRegion(source, { offset: place.offset, byteLength, path: "scales" }, place.signal);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return { byName: new Map(entries.map(({ name }, i) => [name, view.getFloat32(SCALE_BYTES * i, true)])), byteLength };
}

interface Places {
  readonly header: WhisperHeader;
  readonly scalesOffset: number;
  readonly dataOffset: number;
  readonly extras: WhisperExtras;
  readonly end: number;
}

function sectionsOf({ scalesOffset, dataOffset, extras, end }: Places): Section[] {
  const start = whisperHeader.byteLength;
  const sections: Section[] = [
    { name: "header", kind: "header", part: 0, offset: 0, byteLength: start },
    { name: "index", kind: "index", part: 0, offset: start, byteLength: scalesOffset - start },
    { name: "scales", kind: "index", part: 0, offset: scalesOffset, byteLength: dataOffset - scalesOffset },
    ...extras.regions.map(({ path, offset, byteLength }) => {
      return { name: path, kind: "metadata" as const, part: 0, offset, byteLength };
    }),
    { name: "crc32", kind: "integrity", part: 0, offset: end, byteLength: CRC_BYTES },
  ];
  return sections.filter(({ byteLength }) => byteLength > 0);
}

/** By `quantization`. */
const METHODS: readonly (readonly [method: string, bits: number])[] = [
  ["f32", 32],
  ["f16", 16],
  ["int8", 8],
  ["int4", 4],
];

export interface WhisperContents {
  readonly extras: WhisperExtras;
  readonly scales: ReadonlyMap<string, number>;
}

/** The header's fields and the blocks after the weights, under the keys that the APR v2 specification has for them. */
function whisperMetadata(header: WhisperHeader, { extras, scales }: WhisperContents): MetadataEntry[] {
  const entries: MetadataEntry[] = [
    { key: "model_type", value: stringValue("whisper") },
    { key: "name", value: stringValue(`whisper-${WHISPER_MODELS[header.modelType] ?? header.modelType}`) },
    { key: "architecture", value: { type: "map", entries: architectureOf(header) } },
  ];
  const add = (key: string, value: MetadataValue | undefined): void => {
    if (value !== undefined) entries.push({ key, value });
  };
  const [method, bits] = METHODS[header.quantization] ?? [`type ${header.quantization}`, 0];
  if (header.quantization > 0) {
    add("quantization", {
      type: "map",
      entries: [
        { key: "method", value: stringValue(method) },
        { key: "bits_per_weight", value: { type: "u32", value: bits } },
      ],
    });
  }
  // A value of an int8 tensor is the stored integer times the tensor's scale.
  if (scales.size > 0) {
    const steps = [...scales].map(([key, value]): MetadataEntry => ({ key, value: { type: "f32", value } }));
    add("tensor_scales", { type: "map", entries: steps });
  }
  add("vocab", extras.vocab);
  add("merges", extras.merges);
  add("mel_filterbank", extras.filterbank?.values);
  add("mel_filterbank_shape", extras.filterbank?.shape);
  return entries;
}

function architectureOf(header: WhisperHeader): MetadataEntry[] {
  const fields: readonly (readonly [string, number])[] = [
    ["n_vocab", header.nVocab],
    ["n_audio_ctx", header.nAudioCtx],
    ["n_audio_state", header.nAudioState],
    ["n_audio_head", header.nAudioHead],
    ["n_audio_layer", header.nAudioLayer],
    ["n_text_ctx", header.nTextCtx],
    ["n_text_state", header.nTextState],
    ["n_text_head", header.nTextHead],
    ["n_text_layer", header.nTextLayer],
    ["n_mels", header.nMels],
  ];
  return fields.map(([key, value]) => ({ key, value: { type: "u32", value } }));
}

/** What whisper.apr keeps after the weights. */
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

/** A block's length, before the block. */
const LENGTH_BYTES = 4;

/** Vocabulary, then filterbank, each after its length; the header's flags say which of them exist. */
async function readExtras(source: Source, place: ExtrasPlace): Promise<WhisperExtras> {
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
    const message = `${end - offset} bytes before the checksum belong to nothing`;
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

/** Tokens and merges are byte strings: byte-level vocabularies split characters. */
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
