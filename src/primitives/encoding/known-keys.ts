import type { Bytes } from "../../base/bytes.ts";
import { encodeUtf8 } from "../../base/text.ts";

/**
 * The keys of a schema by number, so that a reader of a million entries compares a few bytes where it would decode text
 * and look it up. Entries of one program repeat their keys in one order: what came next the last time is tried first.
 */
export class KnownKeys {
  readonly #keys: readonly Bytes[];
  /** By the number of a key, plus one: the number of the one that followed it. */
  readonly #next: Int32Array<ArrayBuffer>;
  #last = -1;

  constructor(names: readonly string[]) {
    this.#keys = names.map(encodeUtf8);
    this.#next = Int32Array.from({ length: names.length + 1 }, (_, i) => i % names.length);
  }

  /** The number of the key that is `byteLength` bytes at `start`, or -1. */
  find(bytes: Bytes, start: number, byteLength: number): number {
    const guess = this.#next[this.#last + 1] as number;
    if (holds(this.#keys[guess] as Bytes, bytes, start, byteLength)) {
      this.#last = guess;
      return guess;
    }
    const found = this.#keys.findIndex((key) => holds(key, bytes, start, byteLength));
    if (found >= 0) {
      this.#next[this.#last + 1] = found;
      this.#last = found;
    }
    return found;
  }
}

function holds(key: Bytes, bytes: Bytes, start: number, byteLength: number): boolean {
  if (key.byteLength !== byteLength) return false;
  for (let i = 0; i < byteLength; i++) if (key[i] !== bytes[start + i]) return false;
  return true;
}
