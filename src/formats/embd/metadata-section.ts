import { type Bytes, equalBytes } from "../../base/bytes.ts";
import { FormatError, type Location } from "../../base/errors.ts";
import { decodeUtf8, encodeUtf8, printable } from "../../base/text.ts";
import type { Steps } from "../../base/turns.ts";
import type { MetadataEntry, StringValue } from "../../model/metadata.ts";
import { ByteWriter } from "../../struct/byte-writer.ts";
import { Cursor } from "../../struct/cursor.ts";
import { ENTRY_HEADER_BYTES, METADATA_HEADER_BYTES } from "./layout.ts";
import type { Tolerance } from "./tolerance.ts";

/** An entry as the file has it: all values are text. */
export interface TextEntry extends MetadataEntry {
  readonly value: StringValue;
}

/** Where a section stands, for messages. */
export interface SectionPlace {
  readonly source: string;
  /** Of the section, in the file. */
  readonly offset: number;
  readonly tolerance: Tolerance;
}

/** Decodes the metadata section; an empty one has no entries. Keys are unique in what it gives. */
export function* decodeMetadataSection(bytes: Bytes, place: SectionPlace): Steps<readonly TextEntry[]> {
  if (bytes.byteLength === 0) return [];
  const cursor = new Cursor(bytes, {
    source: place.source,
    base: place.offset,
    code: "format/embd.metadata",
    what: "EMBD metadata",
    path: "metadata",
  });
  const count = cursor.u32("entry_count");
  const totalSize = cursor.u32("total_size");
  if (count * ENTRY_HEADER_BYTES > cursor.remaining) {
    const message = `Cannot read EMBD metadata: ${count} entries need at least ${count * ENTRY_HEADER_BYTES} bytes, found ${cursor.remaining}`;
    throw new FormatError("format/embd.metadata", message, cursor.at("entry_count", 0));
  }
  const entries = new Map<string, TextEntry>();
  for (let i = 0; i < count; i++) {
    readEntry(cursor, i, entries, place.tolerance);
    yield;
  }
  checkTotalSize(totalSize, cursor, place.tolerance);
  return [...entries.values()];
}

function readEntry(cursor: Cursor, index: number, entries: Map<string, TextEntry>, tolerance: Tolerance): void {
  const start = cursor.position;
  const path = `entry[${index}]`;
  const keyBytes = cursor.u16(`${path}.key_length`);
  const valueBytes = cursor.u16(`${path}.value_length`);
  const key = decodeUtf8(cursor.bytes(keyBytes, `${path}.key`));
  const stored = cursor.bytes(valueBytes, `${path}.value`);
  if (key === undefined) {
    const message = "Cannot read EMBD metadata: a key must be UTF-8";
    throw new FormatError("format/embd.utf8", message, cursor.at(`${path}.key`, start + ENTRY_HEADER_BYTES));
  }
  const value = textValue(stored);
  if (value.raw !== undefined) {
    const message = `The value of "${printable(key)}" is not UTF-8`;
    tolerance.warn(new FormatError("format/embd.utf8", message, cursor.at(`${path}.value`, start)));
  }
  if (!entries.has(key)) {
    entries.set(key, { key, value });
    return;
  }
  // The first one counts for a lenient reader.
  const message = `Cannot accept EMBD metadata: the key "${printable(key)}" must appear once, found it twice`;
  tolerance.refuse(new FormatError("format/embd.duplicate-key", message, cursor.at(`${path}.key`, start)));
}

/** Text, with its bytes where they are not UTF-8. */
export function textValue(bytes: Bytes): StringValue {
  const value = decodeUtf8(bytes);
  if (value !== undefined) return { type: "string", value };
  const raw = bytes.slice();
  return { type: "string", value: new TextDecoder().decode(raw), raw };
}

/** total_size counts the entries alone; some count the eight bytes before them, too. */
function checkTotalSize(totalSize: number, cursor: Cursor, tolerance: Tolerance): void {
  const wanted = cursor.position - METADATA_HEADER_BYTES;
  if (totalSize === wanted) return;
  const at: Location = cursor.at("total_size", 4);
  const message = `Cannot accept EMBD metadata: total_size must be ${wanted}, found ${totalSize}`;
  const error = new FormatError("format/embd.total-size", message, at);
  if (totalSize === cursor.position) tolerance.warn(error);
  else tolerance.refuse(error);
}

/** The bytes of a value: those it had where they are no UTF-8. */
export function textBytes({ value, raw }: StringValue): Bytes {
  return raw ?? encodeUtf8(value);
}

/** The section with its header; the caller has checked that every length fits. */
export function encodeMetadataSection(entries: readonly TextEntry[]): Bytes {
  const body = new ByteWriter(1024);
  for (const { key, value } of entries) {
    const [keyBytes, valueBytes] = [encodeUtf8(key), textBytes(value)];
    body.u16(keyBytes.byteLength);
    body.u16(valueBytes.byteLength);
    body.bytes(keyBytes);
    body.bytes(valueBytes);
  }
  const section = new ByteWriter(METADATA_HEADER_BYTES + body.byteLength);
  section.u32(entries.length);
  section.u32(body.byteLength);
  section.bytes(body.take());
  return section.take();
}

/** True where both say the same, in the same order. */
export function sameEntries(a: readonly TextEntry[], b: readonly TextEntry[]): boolean {
  return (
    a.length === b.length &&
    a.every(({ key, value }, i) => {
      const other = b[i];
      return other !== undefined && other.key === key && equalBytes(textBytes(value), textBytes(other.value));
    })
  );
}
