import type { Bytes } from "../../base/bytes.ts";
import { FormatError } from "../../base/errors.ts";
import { alignUp, checkedAdd, MAX_OFFSET } from "../../base/integers.ts";
import { checkLimit } from "../../base/limits.ts";
import { decodeUtf8, encodeUtf8, findInvalidUtf8 } from "../../base/text.ts";
import { FEW_STEPS, type Steps } from "../../base/turns.ts";
import type { Shape } from "../../model/dtype.ts";
import { type MetadataEntry, stringValue } from "../../model/metadata.ts";
import { Tensor, type TensorReader } from "../../model/tensor.ts";
import { JsonScanner } from "../../struct/json-scanner.ts";
import { type ScannedEntry, StandardEntryScanner, skipSpace, UniqueNames } from "./fast-entry.ts";
import { type FurtherFields, GeneralEntryReader, HeaderErrors } from "./general-entry.ts";
import { LENGTH_BYTES } from "./index.ts";
import { type DTypeRow, dtypeRow, type SafetensorsDType } from "./layout.ts";
import type { SafetensorsLimits } from "./limits.ts";

/** The only key that is not a tensor's name. */
export const METADATA_KEY = "__metadata__";

/** The origin of a header, and its limits. */
interface HeaderContext {
  /** Label of the file. */
  readonly source: string;
  readonly limits: SafetensorsLimits;
  /** Gives the tensors their bytes. */
  readonly reader: TensorReader;
  /** For `tensor.file`, in sets. */
  readonly file?: string | undefined;
}

/**
 * A parsed header. Offsets are already absolute. `checkLayout` checks whether the tensors are contiguous and fill the
 * file.
 */
export interface Header {
  readonly text: string;
  /** Offset in the file of the tensor data. */
  readonly dataStart: number;
  /** Index after the root's closing brace; the rest is padding. */
  readonly jsonEnd: number;
  /** In the order of the header. */
  readonly tensors: readonly Tensor[];
  /** Index in `text` of each tensor's key. */
  readonly keyIndexes: readonly number[];
  readonly metadata: readonly MetadataEntry[];
  /** The form of `__metadata__`: an empty object and null both mean no entries. */
  readonly metadataForm: "absent" | "null" | "object";
  readonly further: FurtherFields | undefined;
  /** Gives locations for errors that are found later. */
  readonly scanner: JsonScanner;
}

/** Parses header bytes: the JSON, its schema, and each tensor's size against its range. */
export function parseHeader(bytes: Bytes, context: HeaderContext): Steps<Header> {
  const text = decodeUtf8(bytes);
  if (text === undefined) {
    throw new FormatError("format/safetensors.utf8", "Cannot read SafeTensors header: must be UTF-8", {
      source: context.source,
      offset: LENGTH_BYTES + findInvalidUtf8(bytes),
    });
  }
  return parseHeaderText(text, LENGTH_BYTES + bytes.byteLength, context);
}

/** The same for text; `dataStart` is the offset of the tensor data in the file. */
export function parseHeaderText(text: string, dataStart: number, context: HeaderContext): Steps<Header> {
  return new HeaderParser(text, dataStart, context).parse();
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const SPACE = 0x20;
const COMMA = 0x2c;
const COLON = 0x3a;

class HeaderParser {
  readonly #scanner: JsonScanner;
  readonly #errors: HeaderErrors;
  readonly #standard: StandardEntryScanner;
  readonly #general: GeneralEntryReader;
  readonly #names: UniqueNames;
  readonly #dataStart: number;
  readonly #context: HeaderContext;
  readonly #tensors: Tensor[] = [];
  readonly #keyIndexes: number[] = [];
  readonly #entry: ScannedEntry = { row: dtypeRow("U8") as DTypeRow, shape: [], elementCount: 1, begin: 0, end: 0 };
  #metadata: MetadataEntry[] = [];
  #metadataForm: Header["metadataForm"] = "absent";

  constructor(text: string, dataStart: number, context: HeaderContext) {
    const place = { source: context.source, offset: LENGTH_BYTES, what: "SafeTensors header" };
    this.#scanner = new JsonScanner(text, place);
    this.#errors = new HeaderErrors(this.#scanner);
    this.#standard = new StandardEntryScanner(text, context.limits.dimensions);
    this.#general = new GeneralEntryReader(this.#scanner, this.#errors, context.limits.dimensions);
    this.#names = new UniqueNames(text);
    this.#dataStart = dataStart;
    this.#context = context;
  }

  *parse(): Steps<Header> {
    const scanner = this.#scanner;
    scanner.skipSpace();
    // serde reports a root of another type as "invalid type"; here it is a syntax error too.
    for (let key = scanner.firstKey(); key !== undefined; key = scanner.nextKey()) {
      if (key === METADATA_KEY) yield* this.#readMetadata(scanner.keyIndex);
      else {
        this.#readTensor(key, scanner.keyIndex);
        yield;
        while (this.#scanStandardEntries() === "more") yield FEW_STEPS;
      }
    }
    const jsonEnd = scanner.position;
    scanner.expectEnd();
    const repeated = yield* this.#names.findRepeated(this.#tensors);
    const name = this.#tensors[repeated]?.name;
    if (name !== undefined) throw this.#errors.duplicate(name, this.#keyIndexes[repeated] ?? 0);
    return {
      text: scanner.text,
      dataStart: this.#dataStart,
      jsonEnd,
      tensors: this.#tensors,
      keyIndexes: this.#keyIndexes,
      metadata: this.#metadata,
      metadataForm: this.#metadataForm,
      further: this.#general.further,
      scanner,
    };
  }

  /**
   * Reads as many further `,"name":{…}` in the standard order of fields as there are. Stops before anything else, or
   * anything wrong, and leaves it to the general path.
   */
  #scanStandardEntries(): "more" | "stopped" {
    const scanner = this.#scanner;
    const text = scanner.text;
    for (let count = 0; count < FEW_STEPS; count++) {
      let keyIndex = skipSpace(text, scanner.position);
      if (text.charCodeAt(keyIndex) !== COMMA) return "stopped";
      keyIndex = skipSpace(text, keyIndex + 1);
      if (text.charCodeAt(keyIndex) !== QUOTE) return "stopped";
      let i = keyIndex + 1;
      let code = text.charCodeAt(i);
      while (code >= SPACE && code !== QUOTE && code !== BACKSLASH) code = text.charCodeAt(++i);
      if (code !== QUOTE) return "stopped";
      const colon = skipSpace(text, i + 1);
      if (text.charCodeAt(colon) !== COLON) return "stopped";
      const end = this.#standard.scan(skipSpace(text, colon + 1), this.#entry);
      if (end < 0) return "stopped";
      const name = text.slice(keyIndex + 1, i);
      if (name === METADATA_KEY) return "stopped";
      this.#names.note(this.#tensors.length, keyIndex + 1, i, this.#entry.row);
      this.#add(name, keyIndex);
      scanner.position = end;
    }
    return "more";
  }

  #readTensor(name: string, keyIndex: number): void {
    const end = this.#standard.scan(this.#scanner.position, this.#entry);
    if (end >= 0) this.#scanner.position = end;
    else this.#general.read(name, this.#entry);
    const isPlain = this.#scanner.text.startsWith(`"${name}"`, keyIndex);
    if (isPlain) this.#names.note(this.#tensors.length, keyIndex + 1, keyIndex + 1 + name.length, this.#entry.row);
    else this.#names.noteEscaped();
    this.#add(name, keyIndex);
  }

  /** Checks the scanned entry on its own and keeps it. */
  #add(name: string, keyIndex: number): void {
    const { row, shape, elementCount, begin, end } = this.#entry;
    const bits = elementCount * row.bits;
    const byteLength = end - begin;
    if (byteLength * 8 !== bits || byteLength < 0) throw this.#errors.size(name, keyIndex, this.#entry);
    const offset = this.#dataStart + begin;
    if (this.#dataStart + end > MAX_OFFSET) {
      checkedAdd(this.#dataStart, end, this.#errors.at(name, keyIndex, "data_offsets"));
    }
    const { file, reader } = this.#context;
    const tensor = new Tensor({ name, dtype: row.dtype, shape, byteLength, offset, file }, reader);
    this.#tensors.push(tensor);
    this.#keyIndexes.push(keyIndex);
  }

  #refuseKeys(count: number): void {
    const at = this.#scanner.locate(this.#scanner.keyIndex, METADATA_KEY);
    checkLimit(count, this.#context.limits.keys, "this many metadata keys", "limit/safetensors.keys", at);
  }

  *#readMetadata(keyIndex: number): Steps<void> {
    const scanner = this.#scanner;
    if (this.#metadataForm !== "absent") throw this.#errors.duplicate(METADATA_KEY, keyIndex);
    this.#metadataForm = scanner.readLiteral("null") ? "null" : "object";
    if (this.#metadataForm === "null") return;
    const at = scanner.position;
    if (scanner.peek() !== 0x7b)
      throw this.#errors.schema(METADATA_KEY, at, `must be an object, found ${scanner.found()}`);
    const keys = new Set<string>();
    const entries: MetadataEntry[] = [];
    for (let key = scanner.firstKey(); key !== undefined; key = scanner.nextKey()) {
      if (keys.has(key)) throw this.#errors.duplicate(METADATA_KEY, scanner.keyIndex, JSON.stringify(key));
      keys.add(key);
      if (keys.size > this.#context.limits.keys) this.#refuseKeys(keys.size);
      if (scanner.peek() !== QUOTE) {
        const path = `must hold strings only, found ${scanner.found()} at ${JSON.stringify(key)}`;
        throw this.#errors.schema(METADATA_KEY, scanner.position, path);
      }
      entries.push({ key, value: stringValue(scanner.readString()) });
      yield;
    }
    this.#metadata = entries;
  }
}

/** The header's fields of a tensor, without its place. */
export interface HeaderTensor {
  readonly name: string;
  readonly dtype: SafetensorsDType;
  readonly shape: Shape;
  readonly byteLength: number;
}

/** The form in which to write `__metadata__`; "null" and "empty" are two ways of having none. */
export type MetadataForm = "absent" | "null" | "empty" | readonly MetadataEntry[];

/** The header length is a multiple of this, padded with spaces, so that the data after it is aligned. */
export const HEADER_ALIGNMENT = 8;

/** The header exactly as the reference writer renders it, including padding; data in the given order. */
export function renderHeader(form: MetadataForm, tensors: readonly HeaderTensor[]): string {
  const members: string[] = [];
  if (form !== "absent") members.push(`"${METADATA_KEY}":${renderMetadata(form)}`);
  let begin = 0;
  for (const { name, dtype, shape, byteLength } of tensors) {
    const end = begin + byteLength;
    members.push(
      `${JSON.stringify(name)}:{"dtype":"${dtype}","shape":[${shape.join(",")}],"data_offsets":[${begin},${end}]}`,
    );
    begin = end;
  }
  const text = `{${members.join(",")}}`;
  const byteLength = encodeUtf8(text).byteLength;
  return text + " ".repeat(alignUp(byteLength, HEADER_ALIGNMENT) - byteLength);
}

/** The length field and the header. */
export function encodeHeader(text: string): Bytes {
  const body = encodeUtf8(text);
  const bytes = new Uint8Array(LENGTH_BYTES + body.byteLength);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(body.byteLength), true);
  bytes.set(body, LENGTH_BYTES);
  return bytes;
}

/** The reference writer's order: dtype rank, then name by its UTF-8 bytes. */
export function compareStandard(a: HeaderTensor, b: HeaderTensor): number {
  return rankOf(a) - rankOf(b) || compareByUtf8(a.name, b.name);
}

/** The order of UTF-8 bytes, which is that of code points and not that of JavaScript's UTF-16 units. */
export function compareByUtf8(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const x = a.charCodeAt(i);
    const y = b.charCodeAt(i);
    if (x !== y) return codePointWeight(x) - codePointWeight(y);
  }
  return a.length - b.length;
}

/** Surrogates encode code points above every other unit, so they move from 0xd800 to 0x10000 and up. */
function codePointWeight(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x2800 : unit;
}

function rankOf(tensor: HeaderTensor): number {
  return dtypeRow(tensor.dtype)?.rank ?? 0;
}

function renderMetadata(form: Exclude<MetadataForm, "absent">): string {
  if (form === "null") return "null";
  if (form === "empty") return "{}";
  const members = form.map(({ key, value }) => {
    return `${JSON.stringify(key)}:${JSON.stringify(value.type === "string" ? value.value : "")}`;
  });
  return `{${members.join(",")}}`;
}
