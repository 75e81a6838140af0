import type { Bytes } from "../../base/bytes.ts";
import { FormatError } from "../../base/errors.ts";
import { checkLimit } from "../../base/limits.ts";
import { decodeUtf8, printable } from "../../base/text.ts";
import type { Turns } from "../../base/turns.ts";
import type { Finding } from "../../model/finding.ts";
import { Metadata, type MetadataEntry } from "../../model/metadata.ts";
import { STRING_ID, VALUE_BYTES } from "./layout.ts";
import type { GgufLimits } from "./limits.ts";
import { decodeValue, ValueWalk, type Walkable } from "./values.ts";

/** A header that is still arriving. Bytes that are here are read at once; `fill` waits for more. */
export interface Fillable extends Walkable {
  u32(offset: number): number;
  /** A length, count or offset. `path` is called only for the error that it is beyond 2^53 - 1. */
  u64(offset: number, path: () => string): number;
  /** A view of the bytes that are here now. */
  slice(start: number, end: number): Bytes;
  /** Makes `byteLength` bytes at `offset`, and all before them, readable. `path` names the value being read. */
  fill(offset: number, byteLength: number, path: () => string): Promise<void>;
}

/** The place of one key and its value in the file. */
export interface KeyValueExtent {
  readonly key: string;
  /** Offset of the key's length. */
  readonly offset: number;
  /** Offset of the value's type id. */
  readonly valueOffset: number;
  readonly end: number;
}

/** Walks over `count` pairs from `offset`; checks their structure and decodes only the keys. */
export async function readKeyValues(
  window: Fillable,
  range: { readonly offset: number; readonly count: number },
  limits: GgufLimits,
  turns: Turns,
): Promise<KeyValueExtent[]> {
  const extents: KeyValueExtent[] = [];
  const keys = new Set<string>();
  let offset = range.offset;
  for (let i = 0; i < range.count; i++) {
    const path = `metadata_kv[${i}]`;
    const { key, end: valueOffset } = await readKey(window, offset, path, limits);
    if (keys.has(key)) throw duplicateKey(window, key, offset, path);
    keys.add(key);
    const end = await walkValue(window, valueOffset, `${path}.value`, limits);
    extents.push({ key, offset, valueOffset, end });
    offset = end;
    const turn = turns.step();
    if (turn !== undefined) await turn;
  }
  await window.fill(offset, 0, () => "metadata_kv");
  return extents;
}

async function readKey(
  window: Fillable,
  offset: number,
  path: string,
  limits: GgufLimits,
): Promise<{ readonly key: string; readonly end: number }> {
  const lengthPath = (): string => `${path}.key.len`;
  if (offset + 8 > window.filled) await window.fill(offset, 8, lengthPath);
  const length = window.u64(offset, lengthPath);
  window.checkRoom(offset + 8, length, lengthPath);
  checkLimit(
    length,
    limits.keyBytes,
    "a key of this many bytes",
    "limit/gguf.key-bytes",
    window.at(offset, lengthPath()),
  );
  const end = offset + 8 + length;
  if (end > window.filled) await window.fill(offset + 8, length, () => `${path}.key`);
  const key = decodeUtf8(window.slice(offset + 8, end));
  if (key !== undefined) return { key, end };
  throw new FormatError(
    "format/gguf.key-utf8",
    `Cannot read GGUF metadata: ${path}.key must be valid UTF-8`,
    window.at(offset + 8, `${path}.key`),
  );
}

async function walkValue(window: Fillable, offset: number, path: string, limits: GgufLimits): Promise<number> {
  if (offset + 4 > window.filled) await window.fill(offset, 4, () => `${path}_type`);
  const walk = new ValueWalk(window, { type: window.u32(offset), position: offset + 4, path }, limits);
  for (let needed = walk.advance(); needed > 0; needed = walk.advance()) {
    await window.fill(walk.position, needed, () => path);
  }
  return walk.position;
}

/** The pairs as metadata. The values keep `header` alive. */
export function decodeKeyValues(
  extents: readonly KeyValueExtent[],
  header: Bytes,
  options: { readonly littleEndian: boolean; readonly label: string },
): Metadata {
  const entries: MetadataEntry[] = [];
  for (const { key, valueOffset, end } of extents) {
    const stored = header.subarray(valueOffset, end);
    const bytes = options.littleEndian ? stored : swapValue(stored);
    entries.push({ key, value: decodeValue(bytes, options.label) });
  }
  return new Metadata(entries);
}

/** Warnings for keys that we read although other readers refuse them. */
export function keyWarnings(extents: readonly KeyValueExtent[], label: string): Finding[] {
  const empty = extents.find(({ key }) => key === "");
  if (empty === undefined) return [];
  const message = "A metadata key is empty, which llama.cpp refuses";
  return [{ severity: "warning", code: "format/gguf.empty-key", message, at: { source: label, offset: empty.offset } }];
}

function duplicateKey(window: Fillable, key: string, offset: number, path: string): FormatError {
  const message = `Cannot read GGUF metadata: the key "${printable(key)}" occurs twice`;
  return new FormatError("format/gguf.duplicate-key", message, window.at(offset, `${path}.key`), {
    hint: "Readers disagree on which value counts; write the file again with one of them",
  });
}

/**
 * Converts the bytes of a big-endian value (type id and value, already checked by a ValueWalk) to little-endian order.
 * Code after the reader then needs only one byte order.
 */
export function swapValue(bytes: Bytes): Bytes {
  const swapped = bytes.slice();
  const view = new DataView(swapped.buffer);
  const type = view.getUint32(0, false);
  reverse(swapped, 0, 4);
  swapElements(swapped, view, { type, count: 1, position: 4 });
  return swapped;
}

interface Run {
  readonly type: number;
  readonly count: number;
  readonly position: number;
}

/** Returns the position after the run. The ValueWalk has already bounded the depth. */
function swapElements(bytes: Bytes, view: DataView<ArrayBuffer>, { type, count, position: start }: Run): number {
  const size = VALUE_BYTES[type] as number;
  let position = start;
  for (let i = 0; i < count; i++) {
    if (size > 0) {
      reverse(bytes, position, size);
      position += size;
    } else if (type === STRING_ID) {
      const length = takeLength(bytes, view, position);
      position += 8 + length;
    } else {
      const elementType = view.getUint32(position, false);
      reverse(bytes, position, 4);
      const length = takeLength(bytes, view, position + 4);
      position = swapElements(bytes, view, { type: elementType, count: length, position: position + 12 });
    }
  }
  return position;
}

/** The ValueWalk has checked that the length fits the file, so it is exact as a number. */
function takeLength(bytes: Bytes, view: DataView<ArrayBuffer>, position: number): number {
  const length = view.getUint32(position, false) * 0x1_0000_0000 + view.getUint32(position + 4, false);
  reverse(bytes, position, 8);
  return length;
}

function reverse(bytes: Bytes, start: number, byteLength: number): void {
  bytes.subarray(start, start + byteLength).reverse();
}
