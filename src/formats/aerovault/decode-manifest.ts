import type { Bytes } from "../../base/bytes.ts";
import { isTareError, type Location, UnsupportedError } from "../../base/errors.ts";
import { type JsonPlace, JsonScanner } from "../../struct/json-scanner.ts";
import { decodeJsonText } from "../../struct/strict-json.ts";
import type { EntryList } from "./entry-list.ts";
import type { CutManifest } from "./entry-scan.ts";
import { FieldReader, NO_EXTRA_KEYS } from "./field-reader.ts";
import {
  CHECKSUM_KEY,
  type ChunkBounds,
  type ChunkRecord,
  MANIFEST_FORMAT,
  type Manifest,
  WRAPPER_NAMES,
  type WrapperName,
  type WrapperRecord,
  type Wrappers,
} from "./manifest.ts";
import { readChunks, readEntries } from "./manifest-records.ts";
import type { QuickReading } from "./quick-reading.ts";

/**
 * Parses the manifest's JSON. As strict as the reference: duplicate and missing keys, floats, negative numbers, numbers in
 * strings and text behind the end are refused; unknown keys are kept. `at.offset` is that of the text's first byte in the
 * vault. Wrappers, paths and records are judged by `checkManifest`, not here. `quick` is for large vaults.
 */
export function decodeManifest(bytes: Bytes, at: Location, quick?: QuickReading | undefined): Manifest {
  const place = { source: at.source, offset: at.offset ?? 0, what: "AeroVault manifest" };
  const cut = quick?.cut(bytes);
  if (cut !== undefined) {
    try {
      return readText(cut.text, place, { quick, cut });
    } catch (error) {
      if (!isTareError(error)) throw error; // the whole text tells what is wrong, and where
    }
  }
  return readText(decodeJsonText(bytes, place), place, { quick });
}

interface ReadingHelp {
  readonly quick: QuickReading | undefined;
  readonly cut?: CutManifest | undefined;
}

function readText(text: string, place: JsonPlace, help: ReadingHelp): Manifest {
  const scanner = new JsonScanner(text, place);
  scanner.skipSpace();
  const manifest = readManifest(new FieldReader(scanner, "format/aerovault.manifest"), help);
  scanner.expectEnd();
  return manifest;
}

function readManifest(reader: FieldReader, { quick, cut }: ReadingHelp): Manifest {
  let format: number | undefined;
  let created: string | undefined;
  let modified: string | undefined;
  let wrappers: Wrappers | undefined;
  let entries: EntryList | undefined;
  let chunks: Map<string, ChunkRecord> | undefined;
  let errorCorrectionPct: number | undefined;
  let generation: number | undefined;
  let checksum: string | undefined;
  let extra: Map<string, string> | undefined;
  reader.record((key) => {
    if (key === "format") format = readFormat(reader);
    else if (key === "created") created = reader.text();
    else if (key === "modified") modified = reader.text();
    else if (key === "wrappers") wrappers = readWrappers(reader);
    else if (key === "entries")
      entries = cut === undefined ? readEntries(reader, quick) : cut.entriesAt(reader.scanner);
    else if (key === "chunks") chunks = readChunks(reader, quick);
    else if (key === "error_correction_pct") errorCorrectionPct = reader.orNull(() => reader.whole());
    else if (key === "generation" && reader.is("whole")) generation = reader.whole();
    else if (key === CHECKSUM_KEY && reader.is("string")) checksum = reader.text();
    else extra = reader.keep(extra, key);
  });
  reader.need(format, "format");
  return {
    created: reader.need(created, "created"),
    modified: reader.need(modified, "modified"),
    wrappers: reader.need(wrappers, "wrappers"),
    entries: reader.need(entries, "entries"),
    chunks: reader.need(chunks, "chunks"),
    errorCorrectionPct,
    generation,
    checksum,
    extra: extra ?? NO_EXTRA_KEYS,
  };
}

/** Another version is told at once: the rest may look like anything. */
function readFormat(reader: FieldReader): number {
  const { scanner } = reader;
  const start = scanner.position;
  const format = reader.whole();
  if (format === MANIFEST_FORMAT) return format;
  const message = `Cannot read AeroVault manifest: format must be ${MANIFEST_FORMAT}, found ${format}`;
  const hint = "Look for a newer version of tare";
  throw new UnsupportedError("unsupported/aerovault.manifest", message, scanner.locate(start, "format"), { hint });
}

function readWrappers(reader: FieldReader): Wrappers {
  const found = new Map<WrapperName, WrapperRecord>();
  let extra: Map<string, string> | undefined;
  reader.record((key) => {
    if (isWrapperName(key)) found.set(key, readWrapper(reader));
    else extra = reader.keep(extra, key);
  });
  const named = WRAPPER_NAMES.map((name) => [name, reader.need(found.get(name), name)] as const);
  return { ...(Object.fromEntries(named) as Record<WrapperName, WrapperRecord>), extra: extra ?? NO_EXTRA_KEYS };
}

function isWrapperName(key: string): key is WrapperName {
  return (WRAPPER_NAMES as readonly string[]).includes(key);
}

function readWrapper(reader: FieldReader): WrapperRecord {
  let algorithmId: string | undefined;
  let algorithmVersion: number | undefined;
  let level: number | undefined;
  let bounds: ChunkBounds | undefined;
  let extra: Map<string, string> | undefined;
  reader.record((key) => {
    if (key === "algorithm_id") algorithmId = reader.text();
    else if (key === "algorithm_version") algorithmVersion = reader.whole();
    else if (key === "level") level = reader.orNull(() => reader.integer());
    else if (key === "bounds") bounds = reader.orNull(() => readBounds(reader));
    else extra = reader.keep(extra, key);
  });
  return {
    algorithmId: reader.need(algorithmId, "algorithm_id"),
    algorithmVersion: reader.need(algorithmVersion, "algorithm_version"),
    level,
    bounds,
    extra: extra ?? NO_EXTRA_KEYS,
  };
}

function readBounds(reader: FieldReader): ChunkBounds {
  let min: number | undefined;
  let avg: number | undefined;
  let max: number | undefined;
  reader.record((key) => {
    if (key === "min") min = reader.whole();
    else if (key === "avg") avg = reader.whole();
    else if (key === "max") max = reader.whole();
    else reader.scanner.skipValue();
  });
  return { min: reader.need(min, "min"), avg: reader.need(avg, "avg"), max: reader.need(max, "max") };
}
