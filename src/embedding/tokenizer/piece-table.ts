import { LimitError } from "../../base/errors.ts";

/** The id of a token that does not exist. */
export const NONE = -1;

/** The hash of no units at all. */
export const EMPTY_HASH = 0x811c9dc5 | 0;
/** FNV-1a adds a unit by `Math.imul(hash ^ unit, HASH_PRIME)`. */
export const HASH_PRIME = 0x01000193;

/** Length and hash of the mark at the start of every piece that does not begin a word. */
export const CONTINUED_LENGTH = "##".length;
export const CONTINUED_HASH = Math.imul(Math.imul(EMPTY_HASH ^ 0x23, HASH_PRIME) ^ 0x23, HASH_PRIME);

/** UTF-16 units of all tokens together: a hundred times BERT's. A longer file is not a vocabulary. */
const MAX_UNITS = 20_000_000;
/** Steps to a free slot, on average per token. Half-full tables need one or two; more means an attack on our time. */
const MAX_STEPS = 64;

/** The tokens of a vocabulary by their UTF-16 units, in one open-addressing table. Lookups allocate nothing. */
export class PieceTable {
  /** Units of the longest token that can be found. */
  readonly longest: number;
  readonly #units: Uint16Array;
  /** Where each token's units begin; one more entry for the end of the last one. */
  readonly #starts: Int32Array;
  /** Hash and token of each slot, side by side, so that one memory access gets both. */
  readonly #slots: Int32Array;
  readonly #mask: number;

  /** Of two equal tokens the last one counts. Empty tokens are holes. No word reaches tokens longer than `maxUnits`. */
  constructor(tokens: readonly string[], maxUnits: number) {
    this.#units = new Uint16Array(countUnits(tokens));
    this.#starts = new Int32Array(tokens.length + 1);
    const slots = 2 ** Math.ceil(Math.log2(tokens.length * 2 + 2));
    this.#mask = slots - 1;
    this.#slots = new Int32Array(2 * slots).fill(NONE);
    this.longest = this.#insertAll(tokens, maxUnits);
  }

  /**
   * The token that is exactly the units `start` … `end` of a word, or NONE. The token of a piece that does not begin
   * the word has "##" before them. `hash` is that of the token. Positional arguments, because every word of a text
   * calls this.
   */
  find(word: Uint16Array, start: number, end: number, hash: number): number {
    const slots = this.#slots;
    const prefix = start === 0 ? 0 : CONTINUED_LENGTH;
    let slot = (hash ^ (hash >>> 15)) & this.#mask;
    for (let id = slots[2 * slot + 1] as number; id !== NONE; id = slots[2 * slot + 1] as number) {
      if (slots[2 * slot] === hash && this.#lengthOf(id) === prefix + end - start) {
        const units = this.#units;
        const shift = (this.#starts[id] as number) + prefix - start;
        let i = start;
        while (i < end && units[shift + i] === word[i]) i++;
        if (i === end) return id;
      }
      slot = (slot + 1) & this.#mask;
    }
    return NONE;
  }

  #insertAll(tokens: readonly string[], maxUnits: number): number {
    const units = this.#units;
    let longest = 0;
    let steps = tokens.length * MAX_STEPS;
    let end = 0;
    for (let id = 0; id < tokens.length; id++) {
      const token = tokens[id] as string;
      const { length } = token;
      let hash = EMPTY_HASH;
      for (let i = 0; i < length; i++) {
        const unit = token.charCodeAt(i);
        units[end++] = unit;
        hash = Math.imul(hash ^ unit, HASH_PRIME);
      }
      this.#starts[id + 1] = end;
      if (length === 0 || length > maxUnits) continue;
      if (length > longest) longest = length;
      steps -= this.#insert(id, hash);
      if (steps < 0) throw crowded(tokens.length);
    }
    return longest;
  }

  /** Returns the number of steps that it took. */
  #insert(id: number, hash: number): number {
    const slots = this.#slots;
    let slot = (hash ^ (hash >>> 15)) & this.#mask;
    let steps = 0;
    for (let other = slots[2 * slot + 1] as number; other !== NONE; other = slots[2 * slot + 1] as number) {
      if (slots[2 * slot] === hash && this.#equal(other, id)) break;
      slot = (slot + 1) & this.#mask;
      steps++;
    }
    slots[2 * slot] = hash;
    slots[2 * slot + 1] = id;
    return steps;
  }

  #equal(a: number, b: number): boolean {
    const length = this.#lengthOf(a);
    if (length !== this.#lengthOf(b)) return false;
    const [startA, startB] = [this.#starts[a] as number, this.#starts[b] as number];
    for (let i = 0; i < length; i++) if (this.#units[startA + i] !== this.#units[startB + i]) return false;
    return true;
  }

  #lengthOf(id: number): number {
    return (this.#starts[id + 1] as number) - (this.#starts[id] as number);
  }
}

function countUnits(tokens: readonly string[]): number {
  let units = 0;
  for (const token of tokens) units += token.length;
  if (units <= MAX_UNITS) return units;
  const message = `Cannot use the vocabulary: its tokens must have <= ${MAX_UNITS} characters together, found ${units}`;
  throw new LimitError("limit/tokenizer.vocabulary", message, { source: "vocabulary" });
}

function crowded(count: number): LimitError {
  const message = `Cannot use the vocabulary: its ${count} tokens must have different hashes, found too many alike`;
  return new LimitError("limit/tokenizer.vocabulary", message, { source: "vocabulary" });
}
