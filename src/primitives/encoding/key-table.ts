import type { Bytes } from "../../base/bytes.ts";
import { encodeUtf8 } from "../../base/text.ts";

/** Keys of a schema are short; longer text is a name and comes once. */
const MAX_KEY_BYTES = 32;
/** A schema has some ten keys. No more are learned, which keeps a hostile file from making searches long. */
const MAX_KEYS = 32;

interface TableKey {
  readonly bytes: Bytes;
  readonly text: string;
  /** The number of the one that followed it the last time. */
  next: number;
}

/**
 * Keys by number, so that a reader of a million entries compares a few bytes where it would decode text and look it up.
 * Entries of one program repeat their keys in one order: what came next the last time is tried first.
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

  /** What the key of a number says. */
  text(number: number): string {
    return this.#keys[number]?.text ?? "";
  }

  /** Keeps a key that was not found, where it is one worth keeping. */
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
