import type { SpecialTokens, Vocabulary } from "../../model/bert/vocabulary.ts";
import { CONTINUED_HASH, CONTINUED_LENGTH, EMPTY_HASH, HASH_PRIME, NONE, PieceTable } from "./piece-table.ts";

interface WordPieceOptions {
  readonly tokens: readonly string[];
  readonly special: SpecialTokens;
  /** The result for a word that cannot be cut into pieces: [UNK] alone, or the pieces so far and [UNK]. */
  readonly failure: "whole word" | "rest of word";
  /** Longer words are [UNK]. Counts characters, not UTF-16 units. */
  readonly maxWordLength: number;
}

/** Longer words rarely occur twice. */
const LONGEST_KEPT = 48;

/**
 * WordPiece: takes the characters of one word after the other and collects their ids between [CLS] and [SEP]. Greedy,
 * longest piece first. "##" marks pieces that continue a word.
 */
export class WordPieces {
  readonly #table: PieceTable;
  readonly #options: WordPieceOptions;
  readonly #cache = new WordCache();
  #word = new Uint16Array(256);
  #length = 0;
  #characters = 0;
  #hash = EMPTY_HASH;
  /** Hashes of the prefixes of a piece, by their length minus one. */
  readonly #hashes: Int32Array;
  #ids = new Int32Array(512);
  /** Number of ids so far, including [CLS]. */
  #count = 0;
  /** Most ids, without [SEP]. */
  #room = 0;

  constructor(options: WordPieceOptions) {
    // A character is at most two units; a continuation has "##" before it.
    this.#table = new PieceTable(options.tokens, options.maxWordLength * 2 + CONTINUED_LENGTH);
    this.#hashes = new Int32Array(this.#table.longest);
    this.#options = options;
  }

  /** True as soon as there are as many ids as requested. Later text cannot change them. */
  get isFull(): boolean {
    return this.#count >= this.#room;
  }

  /** UTF-16 units of the word so far. */
  get length(): number {
    return this.#length;
  }

  /** Begins a new text with at most `maxTokens` ids, including [CLS] and [SEP]. */
  start(maxTokens: number): void {
    this.#room = Math.max(1, Math.floor(maxTokens) - 1);
    this.#count = 0;
    this.#clearWord();
    this.pushId(this.#options.special.cls);
  }

  /** The ids of the text, as many as there is room for, in a new array. */
  finish(): Int32Array<ArrayBuffer> {
    this.#count = Math.min(this.#count, this.#room);
    this.pushId(this.#options.special.sep);
    return this.#ids.slice(0, this.#count);
  }

  /** Adds a character of the basic plane to the word. */
  push(unit: number): void {
    if (++this.#characters > this.#options.maxWordLength) return;
    if (this.#length === this.#word.length) this.#growWord();
    this.#word[this.#length++] = unit;
    this.#hash = Math.imul(this.#hash ^ unit, HASH_PRIME);
  }

  /**
   * Adds a run of ASCII characters to the word: those for which `table` has an entry below 128, as that entry. Returns
   * the position of the first other character.
   */
  pushRun(text: string, start: number, table: Uint16Array): number {
    const room = this.#roomOfWord(text.length - start);
    const word = this.#word;
    let length = this.#length;
    let hash = this.#hash;
    let i = start;
    for (; i < text.length; i++) {
      const unit = text.charCodeAt(i);
      const entry = unit < 128 ? (table[unit] as number) : 128;
      if (entry >= 128) break;
      if (i - start >= room) continue;
      word[length++] = entry;
      hash = Math.imul(hash ^ entry, HASH_PRIME);
    }
    this.#characters += i - start;
    this.#length = length;
    this.#hash = hash;
    return i;
  }

  /** How many of `wanted` characters still fit the word. */
  #roomOfWord(wanted: number): number {
    const room = Math.min(wanted, this.#options.maxWordLength - this.#characters);
    while (this.#length + room > this.#word.length) this.#growWord();
    return room;
  }

  /** Adds any character to the word. */
  pushPoint(point: number): void {
    if (point <= 0xffff) {
      this.push(point);
      return;
    }
    this.push(0xd800 + ((point - 0x10000) >> 10));
    // The pair counts as one character. Half of a pair may be added to a word that is too long, but that becomes [UNK].
    this.#characters--;
    this.push(0xdc00 + ((point - 0x10000) & 0x3ff));
  }

  /** Removes the characters from unit `start` on from the word and returns them. */
  takeFrom(start: number): number[] {
    const kept = [...String.fromCharCode(...this.#word.subarray(0, start))];
    const taken = [...String.fromCharCode(...this.#word.subarray(start, this.#length))];
    this.#clearWord();
    for (const character of kept) this.pushPoint(character.codePointAt(0) as number);
    return taken.map((character) => character.codePointAt(0) as number);
  }

  /** Adds an id directly. */
  pushId(id: number): void {
    if (this.#count === this.#ids.length) {
      const longer = new Int32Array(this.#ids.length * 2);
      longer.set(this.#ids);
      this.#ids = longer;
    }
    this.#ids[this.#count++] = id;
  }

  /** Ends the word, if there is one. */
  end(): void {
    if (this.#length === 0) return;
    const tooLong = this.#characters > this.#options.maxWordLength;
    // Most words of a text are whole tokens.
    const whole = tooLong ? this.#options.special.unk : this.#table.find(this.#word, 0, this.#length, this.#hash);
    if (whole !== NONE) this.pushId(whole);
    else if (!this.#recall()) this.#cutAndKeep();
    this.#clearWord();
  }

  /** The id of a word of one character, which must be in the basic plane. */
  idOf(unit: number): number {
    const id = this.#table.find(Uint16Array.of(unit), 0, 1, Math.imul(EMPTY_HASH ^ unit, HASH_PRIME));
    return id === NONE ? this.#options.special.unk : id;
  }

  #clearWord(): void {
    this.#length = 0;
    this.#characters = 0;
    this.#hash = EMPTY_HASH;
  }

  #recall(): boolean {
    const slot = this.#cache.find(this.#word, this.#length, this.#hash);
    if (slot < 0) return false;
    const first = this.#cache.firstId(slot);
    const end = first + this.#cache.idCount(slot);
    for (let i = first; i < end; i++) this.pushId(this.#cache.ids[i] as number);
    return true;
  }

  #cutAndKeep(): void {
    const first = this.#count;
    this.#cut();
    if (this.#length > LONGEST_KEPT || this.isFull) return;
    const word = { units: this.#word, length: this.#length, hash: this.#hash };
    this.#cache.add(word, { ids: this.#ids, start: first, end: this.#count });
  }

  /** With "rest of word", a word need not be cut to its end once there are enough ids. */
  #cut(): void {
    const { failure, special } = this.#options;
    const first = this.#count;
    let position = 0;
    while (position < this.#length) {
      const matched = this.#longestAt(position);
      if (matched === 0) {
        if (failure === "whole word") this.#count = first;
        this.pushId(special.unk);
        return;
      }
      position += matched;
      if (failure === "rest of word" && this.isFull) return;
    }
  }

  /** Appends the longest piece at a position of the word and returns its length; 0 if there is none. */
  #longestAt(position: number): number {
    const word = this.#word;
    const hashes = this.#hashes;
    const prefix = position === 0 ? 0 : CONTINUED_LENGTH;
    const most = Math.min(this.#length - position, this.#table.longest - prefix);
    let hash = position === 0 ? EMPTY_HASH : CONTINUED_HASH;
    for (let i = 0; i < most; i++) {
      hash = Math.imul(hash ^ (word[position + i] as number), HASH_PRIME);
      hashes[i] = hash;
    }
    for (let length = most; length > 0; length--) {
      const id = this.#table.find(word, position, position + length, hashes[length - 1] as number);
      if (id === NONE) continue;
      this.pushId(id);
      return length;
    }
    return 0;
  }

  #growWord(): void {
    const longer = new Uint16Array(this.#word.length * 2);
    longer.set(this.#word);
    this.#word = longer;
  }
}

/** Slots; a power of two. English prose has some twenty thousand different words per megabyte, most of them rare. */
const SLOTS = 1 << 14;
/** UTF-16 units of all cached words. */
const UNITS = 1 << 17;
/** Ids of all cached words. */
const IDS = 1 << 16;

/** The first `length` units are the word. */
interface CachedWord {
  readonly units: Uint16Array;
  readonly length: number;
  readonly hash: number;
}

/** Its ids are those from `start` to `end`. */
interface CachedIds {
  readonly ids: Int32Array;
  readonly start: number;
  readonly end: number;
}

/**
 * Words that were cut into pieces lately, one word per slot. When there is no room left, everything is dropped. So
 * memory is bounded, and there is no order of use to maintain.
 */
class WordCache {
  readonly #hashes = new Int32Array(SLOTS);
  readonly #starts = new Int32Array(SLOTS);
  /** 0 for an empty slot: there are no empty words. */
  readonly #lengths = new Uint16Array(SLOTS);
  readonly #firstIds = new Int32Array(SLOTS);
  readonly #idCounts = new Uint16Array(SLOTS);
  readonly #units = new Uint16Array(UNITS);
  readonly #ids = new Int32Array(IDS);
  #unitCount = 0;
  #idCount = 0;

  /** The ids of all cached words. Those of a slot are `idCount(slot)` ids from `firstId(slot)` on. */
  get ids(): Int32Array {
    return this.#ids;
  }

  /** The slot of a word, or -1. `hash` is over the first `length` units of `word`. */
  find(word: Uint16Array, length: number, hash: number): number {
    const slot = (hash ^ (hash >>> 14)) & (SLOTS - 1);
    if (this.#hashes[slot] !== hash || this.#lengths[slot] !== length) return -1;
    const units = this.#units;
    const start = this.#starts[slot] as number;
    for (let i = 0; i < length; i++) if (units[start + i] !== word[i]) return -1;
    return slot;
  }

  firstId(slot: number): number {
    return this.#firstIds[slot] as number;
  }

  idCount(slot: number): number {
    return this.#idCounts[slot] as number;
  }

  /** Caches a word and its ids, and replaces the word in its slot. `length` is at most 65 535. */
  add({ units, length, hash }: CachedWord, { ids, start, end }: CachedIds): void {
    const count = end - start;
    if (length > UNITS || count > IDS) return;
    if (this.#unitCount + length > UNITS || this.#idCount + count > IDS) this.#forget();
    const slot = (hash ^ (hash >>> 14)) & (SLOTS - 1);
    this.#hashes[slot] = hash;
    this.#lengths[slot] = length;
    this.#starts[slot] = this.#unitCount;
    this.#firstIds[slot] = this.#idCount;
    this.#idCounts[slot] = count;
    for (let i = 0; i < length; i++) this.#units[this.#unitCount + i] = units[i] as number;
    for (let i = 0; i < count; i++) this.#ids[this.#idCount + i] = ids[start + i] as number;
    this.#unitCount += length;
    this.#idCount += count;
  }

  #forget(): void {
    this.#lengths.fill(0);
    this.#unitCount = 0;
    this.#idCount = 0;
  }
}

/** Appends pieces that begin with "##" to the ones before and joins the rest with spaces. Skips unknown ids. */
export function decodePieces({ tokens, special }: Vocabulary, ids: Iterable<number>): string {
  const silent = new Set([special.cls, special.sep, special.pad]);
  // A vocabulary without [PAD] uses the id of [UNK] for it, which is a word like others.
  if (special.pad === special.unk) silent.delete(special.pad);
  let text = "";
  for (const id of ids) {
    const token = silent.has(id) ? undefined : tokens[id];
    if (token === undefined) continue;
    if (token.startsWith("##")) text += token.slice(2);
    else text += text === "" ? token : ` ${token}`;
  }
  return text;
}
