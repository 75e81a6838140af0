import type { Bytes } from "../../../base/bytes.ts";
import { isTareError, type Location, UnsupportedError } from "../../../base/errors.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import type { Steps } from "../../../base/turns.ts";
import { type JsonPlace, JsonScanner } from "../../../struct/json-scanner.ts";
import { decodeJsonText } from "../../../struct/strict-json.ts";
import { comparePaths } from "../paths.ts";
import type { CutEntries, CutManifest } from "./fast-entries.ts";
import { type ExtraKeys, FieldReader, NO_EXTRA_KEYS } from "./field-reader.ts";
import {
  CHECKSUM_KEY,
  type ChunkBounds,
  type ChunkRecord,
  type EntryList,
  entryList,
  MANIFEST_FORMAT,
  type Manifest,
  type ManifestEntry,
  WRAPPER_NAMES,
  type WrapperName,
  type WrapperRecord,
  type Wrappers,
} from "./records.ts";

/**
 * Parses the manifest's JSON. As strict as the reference: duplicate and missing keys, floats, negative numbers, numbers
 * in strings and text after the end are refused; unknown keys are kept. `at.offset` is the offset of the text's first
 * byte in the vault. `checkManifest` checks wrappers, paths and records, not this function. `cutEntries` is for large
 * vaults.
 */
export function* decodeManifest(bytes: Bytes, at: Location, cutEntries?: CutEntries | undefined): Steps<Manifest> {
  const place = { source: at.source, offset: at.offset ?? 0, what: "AeroVault manifest" };
  const cut = cutEntries?.(bytes);
  if (cut !== undefined) {
    try {
      return yield* readText(cut.text, place, cut);
    } catch (error) {
      if (!isTareError(error)) throw error; // reading the whole text shows what is wrong, and where
    }
  }
  return yield* readText(decodeJsonText(bytes, place), place);
}

function* readText(text: string, place: JsonPlace, cut?: CutManifest): Steps<Manifest> {
  const scanner = new JsonScanner(text, place);
  scanner.skipSpace();
  const manifest = yield* readManifest(new FieldReader(scanner, "format/aerovault.manifest"), cut);
  scanner.expectEnd();
  return manifest;
}

function* readManifest(reader: FieldReader, cut: CutManifest | undefined): Steps<Manifest> {
  let format: number | undefined;
  let created: string | undefined;
  let modified: string | undefined;
  let wrappers: Wrappers | undefined;
  let entries: EntryList | undefined;
  let listed: ManifestEntry[] | undefined;
  let chunks: Map<string, ChunkRecord> | undefined;
  let errorCorrectionPct: number | undefined;
  let generation: number | undefined;
  let checksum: string | undefined;
  let extra: Map<string, string> | undefined;
  yield* reader.longRecord((key) => {
    if (key === "format") format = readFormat(reader);
    else if (key === "created") created = reader.text();
    else if (key === "modified") modified = reader.text();
    else if (key === "wrappers") wrappers = readWrappers(reader);
    else if (key === "entries" && cut !== undefined) entries = cut.entriesAt(reader.scanner);
    else if (key === "entries") {
      listed = [];
      return readEntries(reader, listed);
    } else if (key === "chunks") {
      chunks = new Map();
      return readChunks(reader, chunks);
    } else if (key === "error_correction_pct") errorCorrectionPct = reader.orNull(() => reader.whole());
    else if (key === "generation" && reader.is("whole")) generation = reader.whole();
    else if (key === CHECKSUM_KEY && reader.is("string")) checksum = reader.text();
    else extra = reader.keep(extra, key);
    return undefined;
  });
  reader.need(format, "format");
  return {
    created: reader.need(created, "created"),
    modified: reader.need(modified, "modified"),
    wrappers: reader.need(wrappers, "wrappers"),
    entries: reader.need(entries ?? (listed && entryList(listed)), "entries"),
    chunks: reader.need(chunks, "chunks"),
    errorCorrectionPct,
    generation,
    checksum,
    extra: extra ?? NO_EXTRA_KEYS,
  };
}

/** Reports another version at once: the rest may have any form. */
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

/** The array `entries`. */
function readEntries(reader: FieldReader, into: ManifestEntry[]): Steps<void> {
  return reader.longList(() => void into.push(readEntry(reader)));
}

/** The object `chunks`. */
function readChunks(reader: FieldReader, into: Map<string, ChunkRecord>): Steps<void> {
  return reader.keyed((id) => {
    reader.once(into.get(id), id);
    into.set(id, readChunk(reader, id));
  });
}

function readEntry(reader: FieldReader): ManifestEntry {
  let path: string | undefined;
  let size: number | undefined;
  let modified: string | undefined;
  let isDir: boolean | undefined;
  let chunks: string[] | undefined;
  let packOffset: number | undefined;
  let mtime: string | undefined;
  let mode: number | undefined;
  let extra: Map<string, string> | undefined;
  reader.record((key) => {
    if (key === "path") path = reader.text();
    else if (key === "size") size = reader.whole();
    else if (key === "modified") modified = reader.text();
    else if (key === "is_dir") isDir = reader.flag();
    else if (key === "chunks") chunks = readIds(reader);
    else if (key === "pack_offset") packOffset = reader.orNull(() => reader.whole());
    // Other writers may use these two keys for something else: then they are kept as they are.
    else if (key === "mtime" && reader.is("string")) mtime = reader.text();
    else if (key === "mode" && reader.is("whole")) mode = reader.whole();
    else extra = reader.keep(extra, key);
  });
  return {
    path: reader.need(path, "path"),
    size: reader.need(size, "size"),
    modified: reader.need(modified, "modified"),
    isDir: reader.need(isDir, "is_dir"),
    chunks: reader.need(chunks, "chunks"),
    packOffset,
    mtime,
    mode,
    extra: extra ?? NO_EXTRA_KEYS,
  };
}

function readIds(reader: FieldReader): string[] {
  const ids: string[] = [];
  reader.list(() => ids.push(reader.text()));
  return ids;
}

function readChunk(reader: FieldReader, id: string): ChunkRecord {
  let innerId: string | undefined;
  let blockIndex: number | undefined;
  let dataOffset: number | undefined;
  let blockLen: number | undefined;
  let plaintextLen: number | undefined;
  let compressedLen: number | undefined;
  let cipherHash: string | undefined;
  let storedRaw = false;
  let extra: Map<string, string> | undefined;
  reader.record((key) => {
    if (key === "id") innerId = reader.text();
    else if (key === "block_index") blockIndex = reader.whole();
    else if (key === "data_offset") dataOffset = reader.whole();
    else if (key === "block_len") blockLen = reader.whole();
    else if (key === "plaintext_len") plaintextLen = reader.whole();
    else if (key === "compressed_len") compressedLen = reader.whole();
    else if (key === "cipher_hash") cipherHash = reader.text();
    else if (key === "stored_raw") storedRaw = reader.flag();
    else extra = reader.keep(extra, key);
  });
  const inner = reader.need(innerId, "id");
  return {
    id,
    innerId: inner === id ? undefined : inner,
    blockIndex: reader.need(blockIndex, "block_index"),
    dataOffset: reader.need(dataOffset, "data_offset"),
    blockLen: reader.need(blockLen, "block_len"),
    plaintextLen: reader.need(plaintextLen, "plaintext_len"),
    compressedLen: reader.need(compressedLen, "compressed_len"),
    cipherHash: reader.need(cipherHash, "cipher_hash"),
    storedRaw,
    extra: extra ?? NO_EXTRA_KEYS,
  };
}

/**
 * The manifest as the reference writes it, byte for byte: compact, keys in their order, entries sorted by the UTF-8
 * bytes of their paths, chunks by id. Our own keys and unknown ones come after those that the reference knows.
 */
export function encodeManifest(manifest: Manifest): Bytes {
  const { created, modified, wrappers, entries, chunks, errorCorrectionPct, generation, extra } = manifest;
  const layers = WRAPPER_NAMES.map((name) => `"${name}":${wrapperText(wrappers[name])}`).join(",");
  const sorted = [...entries.records()].sort((a, b) => comparePaths(a.path, b.path));
  const ids = [...chunks.keys()].sort(); // hex digits: UTF-16 order is byte order
  const text = [
    `{"format":${MANIFEST_FORMAT},"created":${JSON.stringify(created)},"modified":${JSON.stringify(modified)},`,
    `"wrappers":{${layers}${extraText(wrappers.extra)}},`,
    `"entries":[${sorted.map(entryText).join(",")}],`,
    `"chunks":{${ids.map((id) => `${JSON.stringify(id)}:${chunkText(chunks.get(id) as ChunkRecord)}`).join(",")}}`,
    errorCorrectionPct === undefined ? "" : `,"error_correction_pct":${errorCorrectionPct}`,
    generation === undefined ? "" : `,"generation":${generation}`,
    `${extraText(extra)}}`,
  ];
  return encodeUtf8(text.join(""));
}

function wrapperText({ algorithmId, algorithmVersion, level, bounds, extra }: WrapperRecord): string {
  const levelText = level === undefined ? "" : `,"level":${level}`;
  const boundsText =
    bounds === undefined ? "" : `,"bounds":{"min":${bounds.min},"avg":${bounds.avg},"max":${bounds.max}}`;
  const id = JSON.stringify(algorithmId);
  return `{"algorithm_id":${id},"algorithm_version":${algorithmVersion}${levelText}${boundsText}${extraText(extra)}}`;
}

function entryText(entry: ManifestEntry): string {
  const { path, size, modified, isDir, chunks, packOffset, mtime, mode, extra } = entry;
  const ids = chunks.length === 0 ? "" : `"${chunks.join('","')}"`;
  const pack = packOffset === undefined ? "" : `,"pack_offset":${packOffset}`;
  const time = mtime === undefined ? "" : `,"mtime":${JSON.stringify(mtime)}`;
  const bits = mode === undefined ? "" : `,"mode":${mode}`;
  return `{"path":${JSON.stringify(path)},"size":${size},"modified":${JSON.stringify(modified)},"is_dir":${isDir},"chunks":[${ids}]${pack}${time}${bits}${extraText(extra)}}`;
}

function chunkText(record: ChunkRecord): string {
  const { id, blockIndex, dataOffset, blockLen, plaintextLen, compressedLen, cipherHash, storedRaw, extra } = record;
  const raw = storedRaw ? ',"stored_raw":true' : "";
  return `{"id":"${id}","block_index":${blockIndex},"data_offset":${dataOffset},"block_len":${blockLen},"plaintext_len":${plaintextLen},"compressed_len":${compressedLen},"cipher_hash":"${cipherHash}"${raw}${extraText(extra)}}`;
}

function extraText(extra: ExtraKeys): string {
  let text = "";
  for (const [key, value] of extra) text += `,${JSON.stringify(key)}:${value}`;
  return text;
}
