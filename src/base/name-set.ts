/** There are always at least twice as many slots as names, so linear probing stays short. */
const LEAST_SLOTS = 64;
/** At half load, random names never probe this far. Names chosen to collide do, and V8's own seeded set takes over. */
const LONGEST_PROBE = 256;

/**
 * The names of an index, to find duplicates. A `Set` of a million strings costs a second, most of it for growing and
 * hashing into the heap. This set probes numbers only and compares strings only if their hashes agree.
 */
export class NameSet {
  readonly #seed = (Math.random() * 0x1_0000_0000) | 1;
  readonly #names: string[] = [];
  #hashes = new Uint32Array(LEAST_SLOTS / 2);
  /** Index into `names` plus one; zero is a free slot. */
  #slots = new Uint32Array(LEAST_SLOTS);
  #fallback: Set<string> | undefined;

  get size(): number {
    return this.#fallback?.size ?? this.#names.length;
  }

  /** "added", or "duplicate" when the name is in the set already. */
  add(name: string): "added" | "duplicate" {
    if (this.#fallback !== undefined) return this.#addToFallback(name);
    const hash = this.#hash(name);
    const slots = this.#slots;
    const mask = slots.length - 1;
    let slot = hash & mask;
    for (let probe = 0; probe < LONGEST_PROBE; probe++) {
      const held = slots[slot] as number;
      if (held === 0) return this.#take(slot, name, hash);
      if (this.#hashes[held - 1] === hash && this.#names[held - 1] === name) return "duplicate";
      slot = (slot + 1) & mask;
    }
    this.#fallback = new Set(this.#names);
    return this.#addToFallback(name);
  }

  #take(slot: number, name: string, hash: number): "added" {
    const index = this.#names.length;
    this.#names.push(name);
    this.#hashes[index] = hash;
    this.#slots[slot] = index + 1;
    if ((index + 1) * 2 >= this.#slots.length) this.#grow();
    return "added";
  }

  #addToFallback(name: string): "added" | "duplicate" {
    const names = this.#fallback as Set<string>;
    if (names.has(name)) return "duplicate";
    names.add(name);
    return "added";
  }

  /** The seed goes into the multiplier as well, so that no list of names collides for every seed. */
  #hash(name: string): number {
    let hash = this.#seed;
    const factor = (this.#seed ^ 0x85ebca6b) | 1; // odd, so that multiplying loses nothing
    for (let i = 0; i < name.length; i++) {
      hash = Math.imul(hash ^ name.charCodeAt(i), factor);
      hash ^= hash >>> 15;
    }
    return hash >>> 0;
  }

  #grow(): void {
    const slots = new Uint32Array(this.#slots.length * 2);
    const mask = slots.length - 1;
    for (let index = 0; index < this.#names.length; index++) {
      let slot = (this.#hashes[index] as number) & mask;
      while (slots[slot] !== 0) slot = (slot + 1) & mask;
      slots[slot] = index + 1;
    }
    const hashes = new Uint32Array(slots.length / 2);
    hashes.set(this.#hashes);
    this.#slots = slots;
    this.#hashes = hashes;
  }
}

/** "././x" is "x". No regular expression: one that repeats a group needs stack for each turn, and a name may be long. */
export function withoutDots(path: string): string {
  let start = 0;
  while (path.startsWith("./", start)) start += 2;
  return path.slice(start);
}
