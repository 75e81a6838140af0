import type { Shape } from "../../model/shape.ts";
import { type DTypeRow, dtypeRow } from "./dtypes.ts";

/** One header entry, before it is checked against its neighbours. Reused from entry to entry. */
export interface ScannedEntry {
  row: DTypeRow;
  shape: Shape;
  elementCount: number;
  begin: number;
  end: number;
}

const OPENING = codes('{"dtype":"');
const BEFORE_SHAPE = codes('","shape":[');
const BEFORE_OFFSETS = codes(',"data_offsets":[');
/** "F8_E5M2FNUZ". */
const LONGEST_DTYPE = 11;
const QUOTE = 0x22;
const SPACE = 0x20;
const COLON = 0x3a;
const COMMA = 0x2c;
const CLOSE_BRACKET = 0x5d;
const CLOSE_BRACE = 0x7d;
/** Longest run of digits that is below 2^53 whatever the digits are. */
const SAFE_DIGITS = 15;

/**
 * The entry as the reference writer renders it, read without building anything but the shape. Any other
 * rendering, and everything wrong, is left to the general parser, which knows the words for it.
 */
export class StandardEntryScanner {
  readonly #text: string;
  readonly #dimensions: number[] = [];
  /** Character after the number that `#integer` read last. */
  #next = 0;
  /** Neighbours mostly share their dtype, and comparing its name is cheaper than looking it up. */
  #row: DTypeRow | undefined;

  readonly #maxDimensions: number;

  constructor(text: string, maxDimensions: number) {
    this.#text = text;
    this.#maxDimensions = Math.min(maxDimensions, 8);
  }

  /** Fills `into` and gives the index after the closing brace, or -1 where this is not the standard rendering. */
  scan(start: number, into: ScannedEntry): number {
    const text = this.#text;
    let i = this.#match(OPENING, start);
    if (i < 0) return -1;
    i = this.#dtype(i, into);
    if (i < 0) return -1;
    i = this.#match(BEFORE_SHAPE, i);
    if (i < 0) return -1;
    i = this.#shape(i, into);
    if (i < 0) return -1;
    i = this.#match(BEFORE_OFFSETS, i);
    if (i < 0) return -1;
    into.begin = this.#integer(i);
    if (into.begin < 0 || text.charCodeAt(this.#next) !== COMMA) return -1;
    into.end = this.#integer(this.#afterComma());
    i = this.#next;
    if (into.end < 0 || text.charCodeAt(i) !== CLOSE_BRACKET || text.charCodeAt(i + 1) !== CLOSE_BRACE) return -1;
    return i + 2;
  }

  /** Python's writers put a space behind colons and commas: it is stepped over, once. */
  #match(expected: Uint8Array, start: number): number {
    const text = this.#text;
    let i = start;
    for (let k = 0; k < expected.length; k++) {
      const code = expected[k] as number;
      if (text.charCodeAt(i) !== code) return -1;
      i++;
      if ((code === COMMA || code === COLON) && text.charCodeAt(i) === SPACE) i++;
    }
    return i;
  }

  #dtype(start: number, into: ScannedEntry): number {
    const text = this.#text;
    const known = this.#row;
    if (known !== undefined) {
      const name: string = known.dtype;
      let k = 0;
      while (k < name.length && text.charCodeAt(start + k) === name.charCodeAt(k)) k++;
      if (k === name.length && text.charCodeAt(start + k) === QUOTE) {
        into.row = known;
        return start + k;
      }
    }
    let end = start;
    while (end - start <= LONGEST_DTYPE && text.charCodeAt(end) !== QUOTE) end++;
    const row = dtypeRow(text.slice(start, end));
    if (row === undefined) return -1;
    this.#row = row;
    into.row = row;
    return end;
  }

  /** `start` is behind the opening bracket; the result behind the closing one. */
  #shape(start: number, into: ScannedEntry): number {
    const text = this.#text;
    const dimensions = this.#dimensions;
    let count = 0;
    let elementCount = 1;
    let i = start;
    if (text.charCodeAt(i) === CLOSE_BRACKET) {
      into.shape = [];
      into.elementCount = 1;
      return i + 1;
    }
    for (;;) {
      const dimension = this.#integer(i);
      if (dimension < 0) return -1;
      dimensions[count++] = dimension;
      elementCount *= dimension;
      // Beyond this the product of elements and bits may be inexact: the general parser refuses in words.
      if (elementCount > 2 ** 46 || count > this.#maxDimensions) return -1;
      const code = text.charCodeAt(this.#next);
      if (code === CLOSE_BRACKET) break;
      if (code !== COMMA) return -1;
      i = this.#afterComma();
    }
    into.shape = copyShape(dimensions, count);
    into.elementCount = elementCount;
    return this.#next + 1;
  }

  /** Where the number behind the comma at `#next` begins. */
  #afterComma(): number {
    return this.#text.charCodeAt(this.#next + 1) === SPACE ? this.#next + 2 : this.#next + 1;
  }

  #integer(start: number): number {
    const text = this.#text;
    let i = start;
    let code = text.charCodeAt(i);
    let value = 0;
    while (code >= 0x30 && code <= 0x39) {
      value = value * 10 + (code - 0x30);
      i++;
      code = text.charCodeAt(i);
    }
    const digits = i - start;
    this.#next = i;
    if (digits === 0 || digits > SAFE_DIGITS || (digits > 1 && text.charCodeAt(start) === 0x30)) return -1;
    return value;
  }
}

/** An array of exactly its size: growing one by one would reserve room for seventeen dimensions. */
function copyShape(dimensions: readonly number[], count: number): Shape {
  const [a = 0, b = 0, c = 0, d = 0] = dimensions;
  if (count === 1) return [a];
  if (count === 2) return [a, b];
  if (count === 3) return [a, b, c];
  if (count === 4) return [a, b, c, d];
  return dimensions.slice(0, count);
}

function codes(text: string): Uint8Array {
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}
