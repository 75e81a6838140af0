import { type Bytes, equalBytes } from "../../../base/bytes.ts";
import { FormatError, type Location } from "../../../base/errors.ts";
import { decodeUtf8, encodeUtf8, printable } from "../../../base/text.ts";
import type { Steps } from "../../../base/turns.ts";
import type { Shape } from "../../../model/dtype.ts";
import { type Metadata, type MetadataEntry, type StringValue, stringValue } from "../../../model/metadata.ts";
import { ORIGIN_KEY } from "../../../model/origin/origin.ts";
import { ByteWriter, Cursor } from "../../../struct/cursor.ts";
import { ENTRY_HEADER_BYTES, MAX_TEXT_BYTES, METADATA_HEADER_BYTES } from "../layout.ts";
import type { Tolerance } from "../limits.ts";

/** An entry of the file; all values are text. */
export interface TextEntry extends MetadataEntry {
  readonly value: StringValue;
}

/** The place of a section, for messages. */
export interface SectionPlace {
  readonly source: string;
  /** Offset of the section in the file. */
  readonly offset: number;
  readonly tolerance: Tolerance;
}

/** Decodes the metadata section; an empty section has no entries. The resulting keys are unique. */
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
  // A lenient reader keeps the first one.
  const message = `Cannot accept EMBD metadata: the key "${printable(key)}" must appear once, found it twice`;
  tolerance.refuse(new FormatError("format/embd.duplicate-key", message, cursor.at(`${path}.key`, start)));
}

/** Text, with its bytes if they are not UTF-8. */
export function textValue(bytes: Bytes): StringValue {
  const value = decodeUtf8(bytes);
  if (value !== undefined) return { type: "string", value };
  const raw = bytes.slice();
  return { type: "string", value: new TextDecoder().decode(raw), raw };
}

/** total_size counts only the entries; some writers also count the eight bytes before them. */
function checkTotalSize(totalSize: number, cursor: Cursor, tolerance: Tolerance): void {
  const wanted = cursor.position - METADATA_HEADER_BYTES;
  if (totalSize === wanted) return;
  const at: Location = cursor.at("total_size", 4);
  const message = `Cannot accept EMBD metadata: total_size must be ${wanted}, found ${totalSize}`;
  const error = new FormatError("format/embd.total-size", message, at);
  if (totalSize === cursor.position) tolerance.warn(error);
  else tolerance.refuse(error);
}

/** The bytes of a value; its original bytes if they are not UTF-8. */
export function textBytes({ value, raw }: StringValue): Bytes {
  return raw ?? encodeUtf8(value);
}

/** The section with its header. The caller has checked that every length fits. */
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

/** True if both have the same entries in the same order. */
export function sameEntries(a: readonly TextEntry[], b: readonly TextEntry[]): boolean {
  return (
    a.length === b.length &&
    a.every(({ key, value }, i) => {
      const other = b[i];
      return other !== undefined && other.key === key && equalBytes(textBytes(value), textBytes(other.value));
    })
  );
}

/** The keys of the specification's table, in its order. */
export const REQUIRED_KEYS = [
  "model_name",
  "model_version",
  "embedding_dim",
  "vocab_size",
  "num_layers",
  "num_attention_heads",
  "hidden_size",
  "intermediate_size",
  "max_position_emb",
  "created_at",
] as const;

/** The schema of the original program does not require the date, and not every input has one. */
export const OPTIONAL_KEYS: ReadonlySet<string> = new Set(["created_at"]);

export const WORD_EMBEDDINGS = "embeddings.word_embeddings.weight";
const POSITIONS = "embeddings.position_embeddings.weight";
const LAYER = /^encoder\.layer\.(\d+)\./;

/** `model_name` if nothing states it, and a version in the form that the schema requires. */
const UNKNOWN_NAME = "unknown";
const FIRST_VERSION = "1.0.0";
/** The only shape whose heads are known: hidden, intermediate and layers of the MiniLM family with 12 heads. */
const MINILM = { hidden: 384, intermediate: 1536, layers: 6, heads: "12" } as const;

interface RequiredInput {
  readonly metadata: Metadata;
  readonly tensors: readonly { readonly name: string; readonly shape: Shape }[];
  /** Number of tokens of the vocabulary, if there is one. */
  readonly tokenCount: number | undefined;
  /** When the content was made, if that is known. */
  readonly created?: string | undefined;
}

/**
 * The required entries that the metadata lacks and that follow from names, shapes and the time of the source. Heads are
 * never guessed, and the time of writing is never taken: the same input gives the same bytes.
 */
export function missingRequired({ metadata, tensors, tokenCount, created }: RequiredInput): TextEntry[] {
  const shapes = new Map(tensors.map(({ name, shape }) => [name, shape]));
  const words = shapes.get(WORD_EMBEDDINGS);
  const hidden = words?.[1];
  const layers = layerCount(tensors);
  const intermediate = shapes.get("encoder.layer.0.intermediate.dense.weight")?.[0];
  const known: Readonly<Record<(typeof REQUIRED_KEYS)[number], string | number | undefined>> = {
    model_name: metadata.text("general.name") ?? UNKNOWN_NAME,
    model_version: FIRST_VERSION,
    embedding_dim: hidden,
    vocab_size: words?.[0] ?? tokenCount,
    num_layers: layers,
    num_attention_heads: isMiniLm(hidden, intermediate, layers) ? MINILM.heads : undefined,
    hidden_size: hidden,
    intermediate_size: intermediate,
    max_position_emb: shapes.get(POSITIONS)?.[0],
    created_at: created,
  };
  return REQUIRED_KEYS.flatMap((key): TextEntry[] => {
    const value = known[key];
    if (value === undefined || metadata.get(key) !== undefined) return [];
    return [{ key, value: { type: "string", value: String(value) } }];
  });
}

function isMiniLm(hidden: number | undefined, intermediate: number | undefined, layers: number | undefined): boolean {
  return hidden === MINILM.hidden && intermediate === MINILM.intermediate && layers === MINILM.layers;
}

/** One more than the highest layer index in the names. */
function layerCount(tensors: RequiredInput["tensors"]): number | undefined {
  let count: number | undefined;
  for (const { name } of tensors) {
    const number = Number(LAYER.exec(name)?.[1] ?? Number.NaN);
    if (Number.isSafeInteger(number)) count = Math.max(count ?? 0, number + 1);
  }
  return count;
}

/**
 * A value has at most 65 535 bytes, and `tare.origin` can be longer, so it is split: the rest is under "tare.origin.1",
 * "tare.origin.2" and so on.
 */
const partKey = (part: number): string => (part === 0 ? ORIGIN_KEY : `${ORIGIN_KEY}.${part}`);

/** True for the keys of the parts of an origin. */
export function isOriginPart(key: string): boolean {
  return /^tare\.origin\.[1-9][0-9]*$/.test(key);
}

/** The entries that hold an origin. Never splits inside a character. */
export function splitOrigin(text: string): TextEntry[] {
  const entries: TextEntry[] = [];
  let start = 0;
  do {
    // A code unit takes up to three bytes, so the text is shortened until it fits.
    let end = Math.min(text.length, start + MAX_TEXT_BYTES);
    while (encodeUtf8(text.slice(start, end)).byteLength > MAX_TEXT_BYTES) end -= Math.ceil((end - start) / 8);
    if (end < text.length && isHighSurrogate(text.charCodeAt(end - 1))) end--;
    entries.push({ key: partKey(entries.length), value: { type: "string", value: text.slice(start, end) } });
    start = end;
  } while (start < text.length);
  return entries;
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}

/** The entries with a split origin joined again, at the place of its first part. */
export function joinOrigin(entries: readonly MetadataEntry[]): readonly MetadataEntry[] {
  const texts = new Map<string, string>();
  for (const { key, value } of entries) {
    if (value.type === "string" && value.raw === undefined) texts.set(key, value.value);
  }
  if (!texts.has(ORIGIN_KEY) || !texts.has(partKey(1))) return entries;
  let text = "";
  const taken = new Set<string>();
  for (let part = 0; texts.has(partKey(part)); part++) {
    text += texts.get(partKey(part)) ?? "";
    taken.add(partKey(part));
  }
  return entries.flatMap((entry) => {
    if (entry.key === ORIGIN_KEY) return [{ key: ORIGIN_KEY, value: stringValue(text) }];
    return taken.has(entry.key) ? [] : [entry];
  });
}
