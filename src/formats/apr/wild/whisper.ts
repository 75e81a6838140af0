import type { Bytes } from "../../../base/bytes.ts";
import { UnsupportedError } from "../../../base/errors.ts";
import { printable } from "../../../base/text.ts";
import type { Source } from "../../../bytes/source.ts";
import type { DType } from "../../../model/dtype.ts";
import type { OpenContext, Section } from "../../../model/format.ts";
import { Metadata } from "../../../model/metadata.ts";
import { AprModel } from "../apr-model.ts";
import { Tolerated, WildDetails, type WildFacts } from "./details.ts";
import { fits } from "./dtypes.ts";
import { CRC_BYTES, type WhisperHeader, whisperEntry, whisperHeader } from "./layout.ts";
import { wildLimits } from "./limits.ts";
import { readRegion } from "./read-region.ts";
import { dataEndOf, placeTensors, type WildEntry } from "./stored-tensors.ts";
import { readExtras, type WhisperExtras } from "./whisper-extras.ts";
import { whisperMetadata } from "./whisper-metadata.ts";

/** By `quantization`. */
const QUANTIZATIONS: readonly (DType | undefined)[] = ["F32", "F16", "I8"];
const INT8 = 2;
const SCALE_BYTES = 4;

/** What upgrading needs beyond the tensors: int8 values count in steps of one scale per tensor. */
export class WhisperDetails extends WildDetails {
  /** Value of one step, by tensor name; empty where the weights are floats. */
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
  const table = {
    offset: whisperHeader.byteLength,
    byteLength: header.tensorCount * whisperEntry.byteLength,
    path: "index",
  };
  const index = await readRegion(source, table, signal);
  const entries = Array.from({ length: header.tensorCount }, (_, i) => decodeEntry(index, i, { source, header }));
  const scalesOffset = table.offset + table.byteLength;
  const scales = await readScales(source, entries, { header, offset: scalesOffset, signal });
  const dataOffset = scalesOffset + scales.byteLength;
  const end = source.byteLength - CRC_BYTES;
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
  { source, header }: { readonly source: Source; readonly header: WhisperHeader },
): WildEntry {
  const start = i * whisperEntry.byteLength;
  const at = { source: source.label, offset: whisperHeader.byteLength + start, path: `index[${i}]` };
  const entry = whisperEntry.decode(index, at, { start, code: "format/apr.index" });
  const name = textOf(entry.name);
  const { offset, size: byteLength, dimensions } = entry;
  const whole = [entry.shape0, entry.shape1, entry.shape2, entry.shape3];
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

/** Up to the first NUL; the writer cuts after 47 bytes, also inside a character. */
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
