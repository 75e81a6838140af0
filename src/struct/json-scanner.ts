import { FormatError, LimitError, type Location } from "../base/errors.ts";
import { printable } from "../base/text.ts";

/** Where JSON text is, so that every error names an absolute byte. */
export interface JsonPlace {
  /** Label of the file. */
  readonly source: string;
  /** Offset in that file of the first byte of the text. */
  readonly offset: number;
  /** For messages: "SafeTensors header". */
  readonly what: string;
}

/** Nested arrays and objects allowed: serde_json counts down from 128 and refuses at 0. */
const MAX_JSON_DEPTH = 127;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const NAMED_ESCAPES: ReadonlyMap<string, string> = new Map([
  ['"', '"'],
  ["\\", "\\"],
  ["/", "/"],
  ["b", "\b"],
  ["f", "\f"],
  ["n", "\n"],
  ["r", "\r"],
  ["t", "\t"],
]);

/** A text may have a hundred thousand places worth a warning. Counting each from the start would take hours. */
const COUNTED_UNITS = 4096;

/**
 * Walks over JSON text strictly by RFC 8259: no comments, no trailing commas, no lone surrogates, no control characters
 * in strings, no numbers that overflow a double. It builds only what the caller asks for, so a caller that knows its
 * schema reads megabytes without a tree. `position` counts UTF-16 units of `text`.
 */
export class JsonScanner {
  readonly text: string;
  readonly place: JsonPlace;
  position = 0;
  /** Where the key begins that was read last. */
  keyIndex = 0;
  #depth = 0;
  /** Bytes before each multiple of COUNTED_UNITS units of the text, as far as `byteOffset` was asked. */
  readonly #counted: number[] = [0];

  constructor(text: string, place: JsonPlace) {
    this.text = text;
    this.place = place;
  }

  /** The absolute location of a character; counts bytes, so it is for failures only. */
  locate(index: number, path?: string): Location {
    const offset = this.place.offset + this.byteOffset(index);
    return { source: this.place.source, offset, ...(path === undefined ? {} : { path }) };
  }

  /** Bytes from the start of the text to a character. Counts on from the nearest place already counted. */
  byteOffset(index: number): number {
    const last = Math.floor(index / COUNTED_UNITS);
    while (this.#counted.length <= last) {
      const start = (this.#counted.length - 1) * COUNTED_UNITS;
      this.#counted.push((this.#counted.at(-1) as number) + utf8Length(this.text, start, start + COUNTED_UNITS));
    }
    return (this.#counted[last] as number) + utf8Length(this.text, last * COUNTED_UNITS, index);
  }

  /** A syntax error at `index`; the caller throws it. */
  syntaxError(problem: string, index = this.position): FormatError {
    return new FormatError("format/json.syntax", `Cannot read ${this.place.what}: ${problem}`, this.locate(index));
  }

  /** The character code at the position, NaN at the end. */
  peek(): number {
    return this.text.charCodeAt(this.position);
  }

  skipSpace(): void {
    const text = this.text;
    let i = this.position;
    for (;;) {
      const code = text.charCodeAt(i);
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) break;
      i++;
    }
    this.position = i;
  }

  /** After the value: only whitespace may be left. */
  expectEnd(): void {
    this.skipSpace();
    if (this.position < this.text.length) throw this.syntaxError(`the JSON must end here, found ${this.found()}`);
  }

  /** Reads `{…}`, calling `onEntry` at each value with its key; the call must consume the value. */
  readObject(onEntry: (key: string, keyIndex: number) => void): void {
    for (let key = this.firstKey(); key !== undefined; key = this.nextKey()) onEntry(key, this.keyIndex);
  }

  /** Enters `{…}` and gives its first key, undefined where it has none. The caller reads the value, then asks for the next. */
  firstKey(): string | undefined {
    this.#enter("{");
    return this.#leaveIf("}") ? undefined : this.#readKey();
  }

  nextKey(): string | undefined {
    if (this.#leaveIf("}")) return undefined;
    this.#take(",");
    return this.#readKey();
  }

  /** Reads `[…]`, calling `onItem` at each value with its number; the call must consume the value. */
  readArray(onItem: (itemIndex: number) => void): void {
    let itemIndex = 0;
    for (let has = this.firstItem(); has; has = this.nextItem()) onItem(itemIndex++);
  }

  /** Enters `[…]`; false where it is empty. The caller reads the item, then asks for the next. */
  firstItem(): boolean {
    this.#enter("[");
    return !this.#leaveIf("]"); // which has skipped the space before the item
  }

  nextItem(): boolean {
    if (this.#leaveIf("]")) return false;
    this.#take(",");
    this.skipSpace();
    return true;
  }

  /** Reads a string; `wanted` names it in the error. */
  readString(wanted = "a string"): string {
    const text = this.text;
    if (this.peek() !== QUOTE) throw this.syntaxError(`must be ${wanted}, found ${this.found()}`);
    const start = this.position + 1;
    let i = start;
    for (;;) {
      const code = text.charCodeAt(i);
      if (code === QUOTE) break;
      if (code === BACKSLASH) return this.#readEscaped(start, i);
      if (!(code >= 0x20)) throw this.#brokenString(i);
      i++;
    }
    this.position = i + 1;
    return text.slice(start, i);
  }

  /** Reads a number and gives its text, as `Number` understands it. */
  readNumber(): string {
    // No regular expression: a hundred million digits would exhaust its backtracking stack.
    const { text, position: start } = this;
    let i = text.charCodeAt(start) === 0x2d ? start + 1 : start;
    const digits = this.#digitsEnd(i);
    if (digits === i) throw this.syntaxError(`must be a JSON value, found ${this.found()}`);
    if (digits > i + 1 && text.charCodeAt(i) === 0x30) throw this.syntaxError("must be a number without leading zeros");
    i = digits;
    if (text.charCodeAt(i) === 0x2e) i = this.#fractionEnd(i + 1);
    if (text.charCodeAt(i) === 0x65 || text.charCodeAt(i) === 0x45) {
      const sign = text.charCodeAt(i + 1);
      i = this.#fractionEnd(sign === 0x2b || sign === 0x2d ? i + 2 : i + 1);
    }
    const found = text.slice(start, i);
    if (!Number.isFinite(Number(found))) throw this.syntaxError("must be a number that fits a 64-bit float");
    this.position = i;
    return found;
  }

  /** Steps over the literal if it is at the position. */
  readLiteral(literal: "null" | "true" | "false"): boolean {
    if (!this.text.startsWith(literal, this.position)) return false;
    this.position += literal.length;
    return true;
  }

  /** Steps over one value of any type, checking its grammar and building nothing. */
  skipValue(): void {
    const code = this.peek();
    if (code === 0x7b) this.readObject(() => this.skipValue());
    else if (code === 0x5b) this.readArray(() => this.skipValue());
    else if (code === QUOTE) this.readString();
    else if (!(this.readLiteral("null") || this.readLiteral("true") || this.readLiteral("false"))) this.readNumber();
  }

  /** What is at the position, for messages. */
  found(): string {
    if (this.position >= this.text.length) return "the end of the text";
    const character = String.fromCodePoint(this.text.codePointAt(this.position) ?? 0);
    return `"${printable(character)}"`;
  }

  #readKey(): string {
    this.skipSpace();
    this.keyIndex = this.position;
    const key = this.readString("a key");
    this.skipSpace();
    this.#take(":");
    this.skipSpace();
    return key;
  }

  #digitsEnd(index: number): number {
    let i = index;
    for (let code = this.text.charCodeAt(i); code >= 0x30 && code <= 0x39; code = this.text.charCodeAt(i)) i++;
    return i;
  }

  /** Where the digits end that must follow a point or an exponent mark. */
  #fractionEnd(index: number): number {
    const end = this.#digitsEnd(index);
    if (end === index) throw this.syntaxError("a number must have digits here", index);
    return end;
  }

  #enter(bracket: "{" | "["): void {
    const wanted = bracket === "{" ? "an object" : "an array";
    if (this.peek() !== bracket.charCodeAt(0)) throw this.syntaxError(`must be ${wanted}, found ${this.found()}`);
    this.#depth++;
    if (this.#depth > MAX_JSON_DEPTH) {
      const message = `Cannot read ${this.place.what}: JSON nesting must be <= ${MAX_JSON_DEPTH} levels`;
      throw new LimitError("limit/json.depth", message, this.locate(this.position));
    }
    this.position++;
  }

  #leaveIf(bracket: "}" | "]"): boolean {
    this.skipSpace();
    if (this.peek() !== bracket.charCodeAt(0)) return false;
    this.position++;
    this.#depth--;
    return true;
  }

  #take(mark: ":" | ","): void {
    if (this.peek() !== mark.charCodeAt(0)) {
      throw this.syntaxError(`must be ${JSON.stringify(mark)}, found ${this.found()}`);
    }
    this.position++;
  }

  /** The rest of a string from its first backslash on. */
  #readEscaped(start: number, firstEscape: number): string {
    const text = this.text;
    const pieces = [text.slice(start, firstEscape)];
    let i = firstEscape;
    let plain = i;
    for (;;) {
      const code = text.charCodeAt(i);
      if (code === QUOTE) break;
      if (!(code >= 0x20)) throw this.#brokenString(i);
      if (code !== BACKSLASH) {
        i++;
        continue;
      }
      pieces.push(text.slice(plain, i));
      const named = NAMED_ESCAPES.get(text.charAt(i + 1));
      pieces.push(named ?? this.#readUnicode(i));
      i += named !== undefined ? 2 : (pieces.at(-1) as string).length === 2 ? 12 : 6;
      plain = i;
    }
    pieces.push(text.slice(plain, i));
    this.position = i + 1;
    return pieces.join("");
  }

  /** `\uXXXX`, or a pair of them for one character beyond the first plane. Refuses half a pair: it is not text. */
  #readUnicode(index: number): string {
    const first = this.#hexUnit(index);
    if (first === undefined) throw this.syntaxError("must be an escape that JSON knows", index);
    if (first < 0xd800 || first > 0xdfff) return String.fromCharCode(first);
    const second = first < 0xdc00 ? this.#hexUnit(index + 6) : undefined;
    if (second === undefined || second < 0xdc00 || second > 0xdfff) {
      throw this.syntaxError("must be a whole character, found half of a surrogate pair", index);
    }
    return String.fromCharCode(first, second);
  }

  #hexUnit(index: number): number | undefined {
    const unit = this.text.slice(index, index + 6);
    return /^\\u[0-9a-fA-F]{4}$/.test(unit) ? Number.parseInt(unit.slice(2), 16) : undefined;
  }

  #brokenString(index: number): FormatError {
    if (index >= this.text.length) return this.syntaxError("a string must be closed, found the end of the text", index);
    return this.syntaxError("a string must have its control characters escaped, found one that is not", index);
  }
}

/** Bytes that the UTF-16 units `start` … `end` of well-formed text take in UTF-8. */
function utf8Length(text: string, start: number, end: number): number {
  let byteLength = 0;
  for (let i = start; i < end && i < text.length; i++) {
    const code = text.charCodeAt(i);
    // Half of a surrogate pair counts 2: a pair is 4 bytes.
    byteLength += code < 0x80 ? 1 : code < 0x800 || (code >= 0xd800 && code <= 0xdfff) ? 2 : 3;
  }
  return byteLength;
}
