import type { Bytes } from "../../base/bytes.ts";
import { encodeUtf8 } from "../../base/text.ts";

/** Keys of a schema are short. Longer text is a name and occurs only once. */
const MAX_KEY_BYTES = 32;
/** A schema has about ten keys. The bound keeps a hostile file from making searches slow. */
const MAX_KEYS = 32;

interface TableKey {
  readonly bytes: Bytes;
  readonly text: string;
  /** The number of the key that followed it the last time. */
  next: number;
}

/**
 * Keys by number, so that a reader of a million entries compares a few bytes instead of decoding text and looking it
 * up. A program writes the keys of every entry in the same order, so the key that came next the last time is tried
 * first.
 */
export class KeyTable {
  readonly #keys: TableKey[];
  #last: TableKey;

  constructor(names: readonly string[] = []) {
    this.#keys = names.map((text, i) => ({ bytes: encodeUtf8(text), text, next: (i + 1) % names.length }));
    this.#last = { bytes: new Uint8Array(0), text: "", next: 0 };
  }

  /** The number of the key that is `byteLength` bytes at `start`, or -1. */
  find(bytes: Bytes, start: number, byteLength: number): number {
    const guess = this.#last.next;
    const guessed = this.#keys[guess];
    if (guessed !== undefined && holds(guessed.bytes, bytes, start, byteLength)) {
      this.#last = guessed;
      return guess;
    }
    const found = this.#keys.findIndex((key) => holds(key.bytes, bytes, start, byteLength));
    this.#follow(found);
    return found;
  }

  /** The text of a key. */
  text(number: number): string {
    return this.#keys[number]?.text ?? "";
  }

  /** Keeps a key that was not found, if it is short and there is room. */
  learn(bytes: Bytes, text: string): void {
    if (bytes.byteLength > MAX_KEY_BYTES || this.#keys.length >= MAX_KEYS) return;
    this.#follow(this.#keys.push({ bytes: bytes.slice(), text, next: 0 }) - 1);
  }

  #follow(number: number): void {
    const key = this.#keys[number];
    if (key === undefined) return;
    this.#last.next = number;
    this.#last = key;
  }
}

function holds(key: Bytes, bytes: Bytes, start: number, byteLength: number): boolean {
  if (key.byteLength !== byteLength) return false;
  for (let i = 0; i < byteLength; i++) if (key[i] !== bytes[start + i]) return false;
  return true;
}
