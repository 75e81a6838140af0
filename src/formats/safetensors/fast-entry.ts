import { FEW_STEPS, type Steps } from "../../base/turns.ts";
import type { Shape } from "../../model/dtype.ts";
import { type DTypeRow, dtypeRow } from "./layout.ts";

/** One header entry, before it is checked against its neighbours. Reused for every entry. */
export interface ScannedEntry {
  row: DTypeRow;
  shape: Shape;
  elementCount: number;
  begin: number;
  end: number;
}

/** Characters to match, and before which of them whitespace is allowed: everywhere outside of strings. */
interface Pattern {
  readonly codes: Uint8Array;
  readonly spaced: Uint8Array;
}

const OPENING = pattern('{"dtype":"', "^^.....~^^");
const BEFORE_SHAPE = pattern('","shape":[', "~^^.....~^^");
const BEFORE_OFFSETS = pattern(',"data_offsets":[', "^^............~^^");
/** "F8_E5M2FNUZ". */
const LONGEST_DTYPE = 11;
/** Longest run of digits that is always below 2^53. */
const SAFE_DIGITS = 15;
/** Beyond this, the product with the bits of an element may be inexact. */
const MAX_ELEMENTS = 2 ** 46;
/** Highest rank in real models; the general reader takes higher ones. */
const MAX_RANK = 8;

const SPACE = 0x20;
const QUOTE = 0x22;
const COMMA = 0x2c;
const CLOSE_BRACKET = 0x5d;
const CLOSE_BRACE = 0x7d;

/** The index of the next character that is not JSON whitespace. */
export function skipSpace(text: string, start: number): number {
  let i = start;
  let code = text.charCodeAt(i);
  while (code === SPACE || code === 0x0a || code === 0x0d || code === 0x09) code = text.charCodeAt(++i);
  return i;
}

/**
 * Reads an entry whose fields are in the usual order of writers, and allocates nothing but the shape. It is made for
 * the reference writer's rendering without whitespace, and handles whitespace only when it meets some. The general
 * reader takes any other order and every error, because it has the error messages.
 */
export class StandardEntryScanner {
  readonly #text: string;
  readonly #maxRank: number;
  readonly #shapes = new ShapeCache();
  readonly #dimensions: number[] = [];
  /** Index of the first character after the number that `#integer` read last, and after whitespace. */
  #next = 0;
  /** Neighbours mostly share their dtype, and comparing its name is cheaper than looking it up. */
  #row: DTypeRow | undefined;

  constructor(text: string, maxDimensions: number) {
    this.#text = text;
    this.#maxRank = Math.min(maxDimensions, MAX_RANK);
  }

  /** Fills `into` and gives the index after the closing brace, or -1 if this is not the standard order. */
  scan(start: number, into: ScannedEntry): number {
    let i = this.#match(OPENING, start);
    if (i < 0) return -1;
    i = this.#dtype(i, into);
    if (i < 0) return -1;
    i = this.#match(BEFORE_SHAPE, i);
    if (i < 0) return -1;
    i = this.#shape(i, into);
    if (i < 0) return -1;
    i = this.#match(BEFORE_OFFSETS, i);
    return i < 0 ? -1 : this.#offsets(i, into);
  }

  #match({ codes, spaced }: Pattern, start: number): number {
    const text = this.#text;
    let i = start;
    for (let k = 0; k < codes.length; k++) {
      if (text.charCodeAt(i) !== codes[k]) {
        if (spaced[k] === 0) return -1;
        i = skipSpace(text, i);
        if (text.charCodeAt(i) !== codes[k]) return -1;
      }
      i++;
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

  /** `start` is after the opening bracket; the result is after the closing one. */
  #shape(start: number, into: ScannedEntry): number {
    const text = this.#text;
    let rank = 0;
    let elementCount = 1;
    let i = start;
    if (text.charCodeAt(i) !== CLOSE_BRACKET) {
      for (;;) {
        const dimension = this.#integer(i);
        if (dimension < 0 || rank === this.#maxRank) return -1;
        this.#dimensions[rank++] = dimension;
        elementCount *= dimension;
        if (elementCount > MAX_ELEMENTS) return -1;
        i = this.#next;
        const code = text.charCodeAt(i);
        if (code === CLOSE_BRACKET) break;
        if (code !== COMMA) return -1;
        i++;
      }
    }
    into.shape = this.#shapes.get(this.#dimensions, rank);
    into.elementCount = elementCount;
    return i + 1;
  }

  /** `start` is after the opening bracket; the result is after the entry's closing brace. */
  #offsets(start: number, into: ScannedEntry): number {
    const text = this.#text;
    into.begin = this.#integer(start);
    if (into.begin < 0 || text.charCodeAt(this.#next) !== COMMA) return -1;
    into.end = this.#integer(this.#next + 1);
    if (into.end < 0 || text.charCodeAt(this.#next) !== CLOSE_BRACKET) return -1;
    let i = this.#next + 1;
    if (text.charCodeAt(i) !== CLOSE_BRACE) i = skipSpace(text, i);
    return text.charCodeAt(i) === CLOSE_BRACE ? i + 1 : -1;
  }

  #integer(start: number): number {
    const text = this.#text;
    let first = start;
    let code = text.charCodeAt(first);
    if (code <= SPACE) {
      first = skipSpace(text, first);
      code = text.charCodeAt(first);
    }
    let i = first;
    let value = 0;
    while (code >= 0x30 && code <= 0x39) {
      value = value * 10 + (code - 0x30);
      code = text.charCodeAt(++i);
    }
    this.#next = code <= SPACE ? skipSpace(text, i) : i;
    const digits = i - first;
    if (digits === 0 || digits > SAFE_DIGITS || (digits > 1 && text.charCodeAt(first) === 0x30)) return -1;
    return value;
  }
}

/** `marks` has "^" if whitespace is allowed before the character. */
function pattern(text: string, marks: string): Pattern {
  return {
    codes: Uint8Array.from(text, (character) => character.charCodeAt(0)),
    spaced: Uint8Array.from(marks, (mark) => (mark === "^" ? 1 : 0)),
  };
}

/** A power of two; models have a few dozen shapes for thousands of tensors. */
const SLOTS = 64;

/** Gives one array for equal shapes that come close together: fewer objects, less work for the collector. */
class ShapeCache {
  readonly #slots: (Shape | undefined)[] = new Array<Shape | undefined>(SLOTS).fill(undefined);

  /** The first `rank` dimensions as a shape. */
  get(dimensions: readonly number[], rank: number): Shape {
    let hash = rank;
    for (let i = 0; i < rank; i++) hash = (Math.imul(hash, 31) + (dimensions[i] as number)) | 0;
    const slot = (hash ^ (hash >>> 8)) & (SLOTS - 1);
    const cached = this.#slots[slot];
    if (cached !== undefined && isSame(cached, dimensions, rank)) return cached;
    const shape = dimensions.slice(0, rank);
    this.#slots[slot] = shape;
    return shape;
  }
}

function isSame(shape: Shape, dimensions: readonly number[], rank: number): boolean {
  if (shape.length !== rank) return false;
  for (let i = 0; i < rank; i++) if (shape[i] !== dimensions[i]) return false;
  return true;
}

/** The reference writer leaves one run per dtype. */
const MAX_RUNS = 22;
/** Names outside the longest run are looked up in it. If they are more than one in this many, hashing is cheaper. */
const LOOKUP_SHARE = 16;

/**
 * Finds repeated names. Files of the reference writer are sorted by dtype, then by name, and ascending names cannot
 * repeat. Watching the order costs a third of a hash table for every name. Other files get the hash table.
 */
export class UniqueNames {
  readonly #text: string;
  readonly #runStarts: number[] = [];
  #row: DTypeRow | undefined;
  #start = 0;
  #end = 0;
  #order: "ascending" | "other" = "ascending";

  constructor(text: string) {
    this.#text = text;
  }

  /**
   * Notes name number `index`, characters `start` … `end` of the text. The name must be unescaped; else see
   * `noteEscaped`.
   */
  note(index: number, start: number, end: number, row: DTypeRow): void {
    if (this.#order === "other") return;
    if (row !== this.#row) {
      this.#row = row;
      if (this.#runStarts.push(index) > MAX_RUNS) this.#order = "other";
    } else if (!this.#ascends(start, end)) this.#order = "other";
    this.#start = start;
    this.#end = end;
  }

  /** For a name whose text has escapes. */
  noteEscaped(): void {
    this.#order = "other";
  }

  /** The number of the first name found to repeat an earlier one, or -1; `names` are all that were noted, in order. */
  *findRepeated(names: readonly { readonly name: string }[]): Steps<number> {
    if (this.#order === "other") return yield* findByHash(names);
    const bounds = [...this.#runStarts, names.length];
    const runs = this.#runStarts.map((start, i) => ({ start, end: bounds[i + 1] as number }));
    const longest = runs.reduce((a, b) => (b.end - b.start > a.end - a.start ? b : a), { start: 0, end: 0 });
    const others = names.length - (longest.end - longest.start);
    if (others * LOOKUP_SHARE > names.length) return yield* findByHash(names);
    const seen = new Set<string>();
    for (let i = 0; i < names.length; i++) {
      if (i === longest.start) i = longest.end;
      const name = names[i]?.name;
      if (name === undefined) break;
      if (seen.has(name) || isInRun(names, longest, name)) return i;
      seen.add(name);
    }
    return -1;
  }

  /** Compares with the previous name, unit by unit: the engine's own comparison is slow on parts of a string. */
  #ascends(start: number, end: number): boolean {
    const text = this.#text;
    const length = Math.min(end - start, this.#end - this.#start);
    for (let k = 0; k < length; k++) {
      const before = text.charCodeAt(this.#start + k);
      const code = text.charCodeAt(start + k);
      if (code !== before) return code > before;
    }
    return end - start > this.#end - this.#start;
  }
}

function* findByHash(names: readonly { readonly name: string }[]): Steps<number> {
  const seen = new Set<string>();
  for (let i = 0; i < names.length; i++) {
    seen.add(names[i]?.name as string);
    if (seen.size === i) return i;
    if (i % FEW_STEPS === 0) yield FEW_STEPS;
  }
  return -1;
}

interface Run {
  readonly start: number;
  readonly end: number;
}

function isInRun(names: readonly { readonly name: string }[], run: Run, wanted: string): boolean {
  let low = run.start;
  let high = run.end;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const name = names[middle]?.name as string;
    if (name === wanted) return true;
    if (name < wanted) low = middle + 1;
    else high = middle;
  }
  return false;
}
