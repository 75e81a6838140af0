import { FormatError, LimitError } from "../../../base/errors.ts";
import { MAX_OFFSET } from "../../../base/integers.ts";
import { FEW_STEPS, type Steps } from "../../../base/turns.ts";
import type { JsonScanner } from "../../../struct/json-scanner.ts";

/** Keys that this version does not know, with their values as JSON text: a writer puts them back. */
export type ExtraKeys = ReadonlyMap<string, string>;

export const NO_EXTRA_KEYS: ExtraKeys = new Map();

/** More digits than this may not be exact in a double; the slow path then reports what is wrong. */
const SAFE_DIGITS = 15;
const MINUS = 0x2d;
const POINT = 0x2e;
const QUOTE = 0x22;

/**
 * Reads the records of a manifest or an extension directory. Missing keys, duplicate keys and values of another type
 * are refused, as in the reference (docs/formats/aerovault.md#manifest). Every method reads the value at the scanner's
 * position.
 */
export class FieldReader {
  readonly scanner: JsonScanner;
  readonly #code: `format/${string}`;
  /** Keys and indexes that lead to the value: turned into text only for an error. */
  readonly #path: (string | number)[] = [];

  /** `code` is the error code for a record of another form. */
  constructor(scanner: JsonScanner, code: `format/${string}`) {
    this.scanner = scanner;
    this.#code = code;
  }

  /** An object with few keys; `onKey` reads the value. A duplicate key is refused. */
  record(onKey: (key: string) => void): void {
    if (this.scanner.peek() !== 0x7b) throw this.fault("an object");
    const seen: string[] = [];
    const depth = this.#path.length;
    this.scanner.readObject((key) => {
      this.#path[depth] = key;
      if (seen.includes(key)) throw this.#twice(key);
      seen.push(key);
      onKey(key);
    });
    this.#path.length = depth;
  }

  /** The same where values may be long: `onKey` reads the value, or gives the steps of reading it. */
  *longRecord(onKey: (key: string) => Steps<void> | undefined): Steps<void> {
    const { scanner } = this;
    if (scanner.peek() !== 0x7b) throw this.fault("an object");
    const seen: string[] = [];
    const depth = this.#path.length;
    for (let key = scanner.firstKey(); key !== undefined; key = scanner.nextKey()) {
      this.#path[depth] = key;
      if (seen.includes(key)) throw this.#twice(key);
      seen.push(key);
      const steps = onKey(key);
      if (steps !== undefined) yield* steps;
    }
    this.#path.length = depth;
  }

  /** An object of any number of keys; `onKey` reads the value and finds out about repetitions. */
  *keyed(onKey: (key: string) => void): Steps<void> {
    const { scanner } = this;
    if (scanner.peek() !== 0x7b) throw this.fault("an object");
    const depth = this.#path.length;
    let count = 0;
    for (let key = scanner.firstKey(); key !== undefined; key = scanner.nextKey()) {
      this.#path[depth] = key;
      onKey(key);
      if (++count % FEW_STEPS === 0) yield FEW_STEPS;
    }
    this.#path.length = depth;
  }

  /** A list of any length. */
  *longList(onItem: () => void): Steps<void> {
    const { scanner } = this;
    if (scanner.peek() !== 0x5b) throw this.fault("an array");
    const depth = this.#path.length;
    let index = 0;
    for (let has = scanner.firstItem(); has; has = scanner.nextItem()) {
      this.#path[depth] = index++;
      onItem();
      if (index % FEW_STEPS === 0) yield FEW_STEPS;
    }
    this.#path.length = depth;
  }

  list(onItem: () => void): void {
    if (this.scanner.peek() !== 0x5b) throw this.fault("an array");
    const depth = this.#path.length;
    this.scanner.readArray((index) => {
      this.#path[depth] = index;
      onItem();
    });
    this.#path.length = depth;
  }

  /** Whole and 0 … 2^53 - 1: "13.0", "3e5", -1 and "6" are refused, larger numbers are a LimitError. */
  whole(): number {
    const { scanner } = this;
    const { text, position: start } = scanner;
    let value = 0;
    let i = start;
    let code = text.charCodeAt(i);
    for (; code >= 0x30 && code <= 0x39; code = text.charCodeAt(++i)) value = value * 10 + code - 0x30;
    const digits = i - start;
    const isPlain = code !== POINT && code !== 0x65 && code !== 0x45;
    if (digits === 0 || digits > SAFE_DIGITS || !isPlain || (digits > 1 && text.charCodeAt(start) === 0x30)) {
      return this.#unusualWhole();
    }
    scanner.position = i;
    return value;
  }

  /** Whole, and at most `limit`. */
  atMost(limit: number): number {
    const start = this.scanner.position;
    const value = this.whole();
    if (value <= limit) return value;
    this.scanner.position = start;
    throw this.fault(`at most ${limit}`);
  }

  /** Whole, of either sign: zstd levels go below zero. */
  integer(): number {
    if (this.scanner.peek() !== MINUS) return this.whole();
    this.scanner.position++;
    return -this.whole();
  }

  text(): string {
    if (this.scanner.peek() !== QUOTE) throw this.fault("a string");
    return this.scanner.readString();
  }

  flag(): boolean {
    if (this.scanner.readLiteral("true")) return true;
    if (this.scanner.readLiteral("false")) return false;
    throw this.fault("true or false");
  }

  /** Undefined for null, which the reference treats like a missing key. */
  orNull<T>(read: () => T): T | undefined {
    return this.scanner.readLiteral("null") ? undefined : read();
  }

  /** Whether the value has the type of our key: other writers may use the key for something else. */
  is(type: "string" | "whole"): boolean {
    const code = this.scanner.peek();
    return type === "string" ? code === QUOTE : code >= 0x30 && code <= 0x39;
  }

  /** Keeps a value that this version does not know. */
  keep(extra: Map<string, string> | undefined, key: string): Map<string, string> {
    const start = this.scanner.position;
    this.scanner.skipValue();
    return (extra ?? new Map<string, string>()).set(key, this.scanner.text.slice(start, this.scanner.position));
  }

  /** The value of a key of the record just read; refuses a record without it. */
  need<T>(value: T | undefined, key: string): T {
    if (value !== undefined) return value;
    const { scanner } = this;
    const path = pathText([...this.#path, key]);
    const message = `Cannot read ${scanner.place.what}: ${path} must be there`;
    throw new FormatError(this.#code, message, scanner.locate(scanner.position, path));
  }

  /** Refuses a duplicate key in `keyed`. */
  once(value: unknown, key: string): void {
    if (value !== undefined) throw this.#twice(key);
  }

  /** The error for the value at the scanner's position, or the one just read. */
  fault(wanted: string): FormatError {
    const { scanner } = this;
    const path = pathText(this.#path);
    const named = path === "" ? "it" : path;
    const message = `Cannot read ${scanner.place.what}: ${named} must be ${wanted}, found ${scanner.found()}`;
    return new FormatError(this.#code, message, scanner.locate(scanner.position, path));
  }

  #twice(key: string): FormatError {
    const { scanner } = this;
    const message = `Cannot read ${scanner.place.what}: keys must be unique, found ${JSON.stringify(key)} twice`;
    return new FormatError(
      "format/json.duplicate-key",
      message,
      scanner.locate(scanner.position, pathText(this.#path)),
    );
  }

  #unusualWhole(): number {
    const { scanner } = this;
    const start = scanner.position;
    if (scanner.peek() !== MINUS && !this.is("whole")) throw this.fault("a whole number");
    const found = scanner.readNumber();
    const path = pathText(this.#path);
    const at = scanner.locate(start, path);
    const shown = found.slice(0, 40);
    if (!/^\d+$/.test(found)) {
      const message = `Cannot read ${scanner.place.what}: ${path} must be a whole number from 0 up, found ${shown}`;
      throw new FormatError(this.#code, message, at);
    }
    if (Number(found) <= MAX_OFFSET) return Number(found);
    const message = `Cannot read ${scanner.place.what}: ${path} must be at most 2^53 - 1, found ${shown}`;
    const hint = "The field is damaged, or the vault was crafted to break readers";
    throw new LimitError("limit/integer", message, at, { hint });
  }
}

/** `entries[3].size`, `chunks["0953…"].block_len`. */
function pathText(path: readonly (string | number)[]): string {
  let text = "";
  for (const step of path) {
    if (typeof step === "number") text += `[${step}]`;
    else if (!/^[a-z_]+$/.test(step)) text += `[${JSON.stringify(step)}]`;
    else text += text === "" ? step : `.${step}`;
  }
  return text;
}
