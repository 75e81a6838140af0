import { type EntryList, entryList } from "./entry-list.ts";
import { type FieldReader, NO_EXTRA_KEYS } from "./field-reader.ts";
import type { ChunkRecord, ManifestEntry } from "./manifest.ts";
import type { QuickReading } from "./quick-reading.ts";
import type { UsualRecords } from "./usual-records.ts";

/** The array `entries`. */
export function readEntries(reader: FieldReader, quick: QuickReading | undefined): EntryList {
  const entries: ManifestEntry[] = [];
  const usual = usualRecords(reader, quick);
  reader.list(() => entries.push(usual?.((records, position) => records.entry(position)) ?? readEntry(reader)));
  return entryList(entries);
}

/** The object `chunks`. */
export function readChunks(reader: FieldReader, quick: QuickReading | undefined): Map<string, ChunkRecord> {
  const chunks = new Map<string, ChunkRecord>();
  const usual = usualRecords(reader, quick);
  reader.keyed((id) => {
    reader.once(chunks.get(id), id);
    chunks.set(id, usual?.((records, position) => records.chunk(position, id)) ?? readChunk(reader, id));
  });
  return chunks;
}

/** Reads the record at the scanner's position, which moves behind it. */
type ReadUsual = <T>(read: (records: UsualRecords, position: number) => T | undefined) => T | undefined;

/** Undefined where strings may have escapes. */
function usualRecords({ scanner }: FieldReader, quick: QuickReading | undefined): ReadUsual | undefined {
  const records = quick?.usual(scanner.text);
  if (records === undefined) return undefined;
  return (read) => {
    const record = read(records, scanner.position);
    if (record !== undefined) scanner.position = records.end;
    return record;
  };
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
    // Somebody else may mean something else by these two: then they are kept as they are.
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
