/** Slots; a power of two. English prose has some twenty thousand different words a megabyte, most of them rare. */
const SLOTS = 1 << 14;
/** UTF-16 units of all words that are kept. */
const UNITS = 1 << 17;
/** Ids of all words that are kept. */
const IDS = 1 << 16;

/** The first `length` units are the word. */
export interface CachedWord {
  readonly units: Uint16Array;
  readonly length: number;
  readonly hash: number;
}

/** Its ids stand from `start` to `end`. */
export interface CachedIds {
  readonly ids: Int32Array;
  readonly start: number;
  readonly end: number;
}

/**
 * Words that were cut into pieces lately. One word a slot; when there is no room left everything is forgotten, so memory
 * is bounded and nothing has to be kept in order of use.
 */
export class WordCache {
  readonly #hashes = new Int32Array(SLOTS);
  readonly #starts = new Int32Array(SLOTS);
  /** 0 where a slot is empty: there are no empty words. */
  readonly #lengths = new Uint16Array(SLOTS);
  readonly #firstIds = new Int32Array(SLOTS);
  readonly #idCounts = new Uint16Array(SLOTS);
  readonly #units = new Uint16Array(UNITS);
  readonly #ids = new Int32Array(IDS);
  #unitCount = 0;
  #idCount = 0;

  /** The ids of all words that are kept; a slot's are `idCount(slot)` from `firstId(slot)`. */
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

  /** Keeps a word and its ids, instead of what had its slot. `length` is at most 65 535. */
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
