import type { Bytes } from "../../base/bytes.ts";

/** Keys of a schema are short; longer text is a name and comes once. */
const MAX_KEY_BYTES = 32;

/** A schema has some ten keys. More are decoded each time, which keeps a hostile file from making searches long. */
const MAX_KEYS = 32;

interface KnownKey {
  readonly bytes: Bytes;
  readonly text: string;
  /** What came after it the last time: entries written by one program repeat their keys in one order. */
  next: KnownKey | undefined;
}

/** Remembers short texts by their bytes, so that repeated map keys are compared instead of decoded. */
export class KeyCache {
  readonly #keys: KnownKey[] = [];
  #last: KnownKey | undefined;

  find(bytes: Bytes, start: number, byteLength: number): string | undefined {
    const guess = this.#last?.next;
    if (guess !== undefined && holds(guess, bytes, start, byteLength)) {
      this.#last = guess;
      return guess.text;
    }
    if (byteLength > MAX_KEY_BYTES) return undefined;
    const known = this.#keys.find((key) => holds(key, bytes, start, byteLength));
    if (known !== undefined) this.#follow(known);
    return known?.text;
  }

  add(bytes: Bytes, start: number, byteLength: number, text: string): void {
    if (byteLength > MAX_KEY_BYTES || this.#keys.length >= MAX_KEYS) return;
    const key = { bytes: bytes.slice(start, start + byteLength), text, next: undefined };
    this.#keys.push(key);
    this.#follow(key);
  }

  #follow(key: KnownKey): void {
    if (this.#last !== undefined) this.#last.next = key;
    this.#last = key;
  }
}

function holds(key: KnownKey, bytes: Bytes, start: number, byteLength: number): boolean {
  const own = key.bytes;
  if (own.byteLength !== byteLength) return false;
  for (let i = 0; i < byteLength; i++) if (own[i] !== bytes[start + i]) return false;
  return true;
}
