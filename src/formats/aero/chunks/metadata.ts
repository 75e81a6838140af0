import type { Bytes } from "../../../base/bytes.ts";
import { FormatError } from "../../../base/errors.ts";
import { decodeUtf8 } from "../../../base/text.ts";
import { arrayValue, type MetadataEntry, type MetadataValue } from "../../../model/metadata.ts";
import { parseJsonNumber, renderMembers, renderValue } from "../../../model/metadata-json.ts";
import { MsgpackReader } from "../../../primitives/encoding/msgpack-reader.ts";
import { MsgpackWriter } from "../../../primitives/encoding/msgpack-writer.ts";
import { decodeJsonText, type JsonNode, parseStrictJson } from "../../../struct/strict-json.ts";
import { FOURCC, VERSION } from "../layout.ts";
import { type CarriedKeys, type FurtherKeys, writePairs } from "./further-keys.ts";
import { type ManifestRow, SHARD_NUMBERS, type ShardRow, type StatedRows } from "./manifest-rows.ts";
import type { ContentPlace } from "./tidx.ts";

/** The JSON metadata: its entries, in order. */
export interface JsonMetadata {
  readonly entries: readonly MetadataEntry[];
}

/** Refuses content that is not one JSON object. */
export function decodeMjsn(content: Bytes, { label, offset }: ContentPlace): JsonMetadata {
  const place = { source: label, offset, what: "AERO MJSN" };
  const text = decodeJsonText(content, place);
  const root = parseStrictJson(text, place);
  if (root.type !== "object") {
    const message = `Cannot read AERO MJSN: must be a JSON object, found ${root.type}`;
    throw new FormatError("format/aero.mjsn", message, { source: label, offset, path: "mjsn" });
  }
  return { entries: root.entries.map(([key, node]) => ({ key, value: toValue(node) })) };
}

function toValue(node: JsonNode): MetadataValue {
  switch (node.type) {
    case "null":
      return { type: "null" };
    case "bool":
      return { type: "bool", value: node.value };
    case "string":
      return { type: "string", value: node.value };
    case "number":
      return parseJsonNumber(node.text);
    case "array": {
      const items = node.items.map(toValue);
      const [first] = items;
      const isUniform = first !== undefined && items.every((item) => item.type === first.type);
      return arrayValue(items, isUniform ? first.type : undefined);
    }
    case "object":
      return { type: "map", entries: node.entries.map(([key, item]) => ({ key, value: toValue(item) })) };
  }
}

/**
 * JSON as the reference writer renders it: compact, keys sorted by code point, everything beyond ASCII escaped. Inner
 * maps keep their order, because nothing else in the file records it. Byte strings and strings that are not UTF-8 have
 * no JSON form; callers keep them out.
 */
export function renderJsonObject(entries: readonly MetadataEntry[]): string {
  return renderMembers(
    [...entries].sort((a, b) => compareCodePoints(a.key, b.key)),
    renderText,
  );
}

export function renderJsonValue(value: MetadataValue): string {
  return renderValue(value, renderText);
}

function renderText(text: string): string {
  return JSON.stringify(text).replace(/[\u0080-\uffff]/g, (unit) => {
    return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

/** JavaScript compares UTF-16 units, which puts code points above U+FFFF before U+E000 … U+FFFF. */
function compareCodePoints(a: string, b: string): number {
  const left = [...a];
  const right = [...b];
  const length = Math.min(left.length, right.length);
  for (let i = 0; i < length; i++) {
    const difference = (left[i]?.codePointAt(0) ?? 0) - (right[i]?.codePointAt(0) ?? 0);
    if (difference !== 0) return difference;
  }
  return left.length - right.length;
}

/** The part of the manifest that the tables do not repeat; its lists of chunks and shards repeat the TOC. */
export interface Manifest {
  readonly name?: string;
  readonly architecture?: string;
  /** Rows about chunks with a role or a type that the specification does not name. */
  readonly rows?: readonly ManifestRow[];
}

/** The role of each type of chunk (docs/formats/aero.md#mmsg). */
const ROLES: ReadonlyMap<string, ChunkRole> = new Map([
  [FOURCC.control, "control_integrity"],
  [FOURCC.json, "json"],
  [FOURCC.manifest, "manifest"],
  [FOURCC.index, "tensors"],
  [FOURCC.pages, "page_hashes"],
  [FOURCC.weights, "weights"],
]);

/** The keys of each row (docs/formats/aero.md#mmsg). Writers make new rows from the tables. */
const ROW_KEYS: Readonly<Record<string, readonly string[]>> = {
  chunks: ["role", "fourcc", "toc_index", "shard_id"],
  shards: ["shard_id", "toc_index", "size_bytes", "tensor_count", "mmap_critical"],
};

/**
 * Walks the whole manifest, so that it finds damage anywhere. Keeps the model's name and architecture, and hands the
 * keys that the specification does not name to `further`.
 */
export function decodeMmsg(content: Bytes, place: ContentPlace, notes: ManifestNotes = {}): Manifest {
  return new MmsgDecoder(content, place, notes).run();
}

/** Takes what the manifest says besides the model's name and architecture. */
export interface ManifestNotes {
  readonly further?: FurtherKeys;
  readonly stated?: StatedRows;
}

class MmsgDecoder {
  readonly #content: Bytes;
  readonly #reader: MsgpackReader;
  readonly #further: FurtherKeys | undefined;
  readonly #rows: ManifestRow[] = [];
  readonly #stated: StatedRows | undefined;

  constructor(content: Bytes, place: ContentPlace, { further, stated }: ManifestNotes) {
    this.#content = content;
    this.#reader = new MsgpackReader(content, { source: place.label, base: place.offset, what: "AERO MMSG" });
    this.#further = further;
    this.#stated = stated;
  }

  run(): Manifest {
    const reader = this.#reader;
    let manifest: Manifest = {};
    const seen = new Set<string>();
    for (let left = reader.readMapHeader("mmsg"); left > 0; left--) {
      const start = reader.offset;
      const key = reader.readKey("mmsg");
      const isKnown = key === "model" || key === "format" || Object.hasOwn(ROW_KEYS, key);
      if (isKnown && seen.has(key)) this.#further?.unplaced(`MMSG.${key}, the second of that name`);
      seen.add(key);
      if (key === "model" && reader.peekType(key) === "map") manifest = this.#readModel();
      else if (key === "format") this.#readFormat();
      else if (Object.hasOwn(ROW_KEYS, key)) this.#readRows(key, ROW_KEYS[key] ?? []);
      else {
        reader.skip(key);
        if (isKnown) this.#further?.unplaced(`MMSG.${key}`);
        else this.#further?.manifest(key, this.#content.subarray(start, reader.offset));
      }
    }
    reader.checkEnd("mmsg");
    return this.#rows.length === 0 ? manifest : { ...manifest, rows: this.#rows };
  }

  #readModel(): Manifest {
    const reader = this.#reader;
    const found: { name?: string; architecture?: string } = {};
    for (let left = reader.readMapHeader("model"); left > 0; left--) {
      const start = reader.offset;
      const key = reader.readKey("model");
      const isText = reader.peekType(`model.${key}`) === "string";
      const isKnown = key === "name" || key === "architecture";
      if (isText && isKnown) {
        found[key] = reader.readString(`model.${key}`);
        continue;
      }
      reader.skip(`model.${key}`);
      if (isKnown) this.#further?.unplaced(`MMSG.model.${key}, which is no text`);
      else this.#further?.model(key, this.#content.subarray(start, reader.offset));
    }
    return found;
  }

  /** A new manifest says AERO 0.1, so anything else here is reported. */
  #readFormat(): void {
    const reader = this.#reader;
    if (reader.peekType("format") !== "map") {
      reader.skip("format");
      this.#further?.unplaced("MMSG.format");
      return;
    }
    for (let left = reader.readMapHeader("format"); left > 0; left--) {
      const key = this.#readAnyText("format");
      const start = reader.offset;
      const isUsual = key === "name" && this.#readAnyText("format.name") === FORMAT_NAME;
      if (key !== "name") reader.skip("format");
      if (isUsual || (key === "version" && isVersion(this.#content.subarray(start, reader.offset)))) continue;
      this.#further?.unplaced(`MMSG.format.${key ?? "?"}`);
    }
  }

  #readRows(list: string, known: readonly string[]): void {
    const reader = this.#reader;
    if (reader.peekType(list) !== "array") {
      reader.skip(list);
      this.#further?.unplaced(`MMSG.${list}`);
      return;
    }
    for (let left = reader.readArrayHeader(list); left > 0; left--) {
      if (reader.peekType(list) !== "map") {
        reader.skip(list);
        this.#further?.unplaced(`MMSG.${list}`);
        continue;
      }
      const row: RowDraft = {};
      for (let members = reader.readMapHeader(list); members > 0; members--) {
        const key = this.#readAnyText(list);
        if (list === "chunks") this.#readMember(row, key);
        else this.#readShardMember(row, key);
        if (key === undefined || !known.includes(key)) this.#further?.unplaced(`MMSG.${list}[].${key ?? "?"}`);
      }
      if (list === "chunks") this.#takeRow(row);
      else this.#stated?.shards.push(row);
    }
  }

  /** Reads one value of a row about a chunk. */
  #readMember(row: RowDraft, key: string | undefined): void {
    const reader = this.#reader;
    if (key === "role" || key === "fourcc") {
      row[key] = this.#readAnyText("chunks");
      if (row[key] === undefined) this.#further?.unplaced(`MMSG.chunks[].${key}, which is no text`);
    } else if (key === "toc_index" || key === "shard_id") this.#readNumber(row, key, "chunks");
    else reader.skip("chunks");
  }

  /** Reads one value of a row about a shard. */
  #readShardMember(row: RowDraft, key: string | undefined): void {
    const reader = this.#reader;
    const number = SHARD_NUMBERS.find((name) => name === key);
    if (number !== undefined) {
      this.#readNumber(row, number, "shards");
      return;
    }
    const isTrue = reader.peekType("shards") === "bool" && this.#content[reader.offset] === TRUE;
    reader.skip("shards");
    // Every new manifest has `mmap_critical` true, so another value would be lost.
    if (key === "mmap_critical" && !isTrue) this.#further?.misstated(`MMSG.shards[].${key}`);
  }

  #readNumber(row: RowDraft, key: (typeof SHARD_NUMBERS)[number], list: "chunks" | "shards"): void {
    const reader = this.#reader;
    const value = reader.peekType(list) === "integer" ? reader.readInteger(list) : reader.skip(list);
    if (typeof value === "number") row[key] = value;
    else this.#further?.misstated(`MMSG.${list}[].${key}`);
  }

  /** A new manifest has its own row for every written chunk, so only what it would not say is kept. */
  #takeRow({ role, fourcc = "", toc_index: tocIndex, shard_id: shardId }: RowDraft): void {
    if (role === undefined || ROLES.get(fourcc) === role) {
      this.#stated?.chunks.push({ role: role ?? "", fourcc, tocIndex, shardId });
      return;
    }
    if (fourcc === "" && [...ROLES.values()].some((known) => known === role)) return;
    this.#rows.push({ role, fourcc, tocIndex, shardId });
  }

  /** Undefined if the value is not text or not UTF-8: that is no damage in parts that are not read. */
  #readAnyText(path: string): string | undefined {
    const reader = this.#reader;
    if (reader.peekType(path) === "string") return decodeUtf8(reader.readTextBytes(path));
    reader.skip(path);
    return undefined;
  }
}

interface RowDraft extends ShardRow {
  role?: string | undefined;
  fourcc?: string | undefined;
}

/** MessagePack's byte for true. */
const TRUE = 0xc3;

/** The value of `format.name` (docs/formats/aero.md#mmsg). */
const FORMAT_NAME = "AERO";

/** `value` is one whole value, which the caller has walked over. */
function isVersion(value: Bytes): boolean {
  const reader = new MsgpackReader(value, { source: "", base: 0 });
  if (reader.peekType() !== "array" || reader.readArrayHeader() !== 2) return false;
  const numbers = [VERSION.major, VERSION.minor];
  return numbers.every((number) => reader.peekType() === "integer" && reader.readInteger() === number);
}

/** The role of a chunk, as the manifest names it. */
export type ChunkRole = "control_integrity" | "json" | "manifest" | "tensors" | "page_hashes" | "weights";

interface ManifestChunk {
  /** Absent for a chunk that the manifest does not list. */
  readonly role: string | undefined;
  readonly fourcc: string;
  /** For weights and their page hashes. */
  readonly shardId?: number | undefined;
}

interface ManifestShard {
  readonly shardId: number;
  /** Place of the WTSH chunk in the TOC. */
  readonly tocIndex: number;
  readonly byteLength: number;
  readonly tensorCount: number;
}

export interface PlannedManifest {
  readonly name: string;
  readonly architecture: string;
  /** In TOC order. */
  readonly chunks: readonly ManifestChunk[];
  readonly shards: readonly ManifestShard[];
  /** Keys of the manifest and of its `model` that the specification does not name. */
  readonly further?: Pick<CarriedKeys, "manifest" | "model"> | undefined;
}

/** The MMSG payload before compression, keys in the reference writer's order (spec, "MMSG Schema"). */
export function encodeManifest(manifest: PlannedManifest): Bytes {
  const writer = new MsgpackWriter();
  const { further } = manifest;
  writer.map(4 + (further?.manifest?.count ?? 0));
  writer.string("format");
  writer.map(2);
  writeText(writer, "name", "AERO");
  writer.string("version");
  writer.array(2);
  writer.uint(VERSION.major);
  writer.uint(VERSION.minor);
  writer.string("model");
  writer.map(2 + (further?.model?.count ?? 0));
  writeText(writer, "name", manifest.name);
  writeText(writer, "architecture", manifest.architecture);
  writePairs(writer, further?.model);
  writer.string("chunks");
  writer.array(manifest.chunks.filter(({ role }) => role !== undefined).length);
  for (const [tocIndex, chunk] of manifest.chunks.entries()) writeChunk(writer, chunk, tocIndex);
  writer.string("shards");
  writer.array(manifest.shards.length);
  for (const shard of manifest.shards) writeShard(writer, shard);
  writePairs(writer, further?.manifest);
  return writer.take();
}

function writeChunk(writer: MsgpackWriter, { role, fourcc, shardId }: ManifestChunk, tocIndex: number): void {
  if (role === undefined) return;
  writer.map(shardId === undefined ? 3 : 4);
  writeText(writer, "role", role);
  writeText(writer, "fourcc", fourcc);
  writeNumber(writer, "toc_index", tocIndex);
  if (shardId !== undefined) writeNumber(writer, "shard_id", shardId);
}

function writeShard(writer: MsgpackWriter, shard: ManifestShard): void {
  writer.map(5);
  writeNumber(writer, "shard_id", shard.shardId);
  writeNumber(writer, "toc_index", shard.tocIndex);
  writeNumber(writer, "size_bytes", shard.byteLength);
  writeNumber(writer, "tensor_count", shard.tensorCount);
  writer.string("mmap_critical");
  writer.bool(true);
}

function writeText(writer: MsgpackWriter, key: string, value: string): void {
  writer.string(key);
  writer.string(value);
}

function writeNumber(writer: MsgpackWriter, key: string, value: number): void {
  writer.string(key);
  writer.uint(value);
}
