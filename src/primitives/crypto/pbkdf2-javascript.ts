import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { compressSha1, SHA1_INITIAL_STATE, sha1Javascript } from "../digest/sha1-javascript.ts";
import { MD_BLOCK_BYTES } from "../digest/sha256.ts";
import type { Pbkdf2Sha1 } from "./pbkdf2.ts";
import { wipe } from "./secrets.ts";

/** Five words, the digest of SHA-1. */
const DIGEST_BYTES = 20;

/** PBKDF2 in plain TypeScript. Hashes both pads of HMAC only once, so each turn is two compressions. */
export const pbkdf2Javascript: Pbkdf2Sha1 = async (password, { salt, iterations, byteLength }) => {
  const prf = new HmacWords(password);
  const result = new DataView(new ArrayBuffer(Math.ceil(byteLength / DIGEST_BYTES) * DIGEST_BYTES));
  for (let block = 1; (block - 1) * DIGEST_BYTES < byteLength; block++) {
    const number = Uint8Array.of(block >>> 24, block >>> 16, block >>> 8, block);
    const turn = prf.ofBytes(concatBytes([salt, number]));
    const sum = turn.slice();
    for (let i = 1; i < iterations; i++) {
      prf.ofWords(turn);
      for (let word = 0; word < 5; word++) sum[word] = (sum[word] as number) ^ (turn[word] as number);
    }
    sum.forEach((word, i) => {
      result.setInt32((block - 1) * DIGEST_BYTES + 4 * i, word);
    });
  }
  prf.wipe();
  return new Uint8Array(result.buffer, 0, byteLength).slice();
};

/** HMAC-SHA-1 under one key, on digests. */
class HmacWords {
  readonly #innerPad: Bytes;
  readonly #inner: Int32Array;
  readonly #outer: Int32Array;
  readonly #schedule = new Int32Array(80);

  constructor(key: Bytes) {
    const short = key.byteLength > MD_BLOCK_BYTES ? digestOf([key]) : key;
    const pad = (value: number): Bytes => {
      const block = new Uint8Array(MD_BLOCK_BYTES).fill(value);
      short.forEach((byte, i) => {
        block[i] = byte ^ value;
      });
      return block;
    };
    this.#innerPad = pad(0x36);
    const outerPad = pad(0x5c);
    this.#inner = this.#started(this.#innerPad);
    this.#outer = this.#started(outerPad);
    wipe(outerPad);
  }

  /** HMAC of any message, as words. */
  ofBytes(message: Bytes): Int32Array {
    const inner = digestOf([this.#innerPad, message]);
    const view = new DataView(inner.buffer);
    const words = Int32Array.from({ length: 5 }, (_, i) => view.getInt32(4 * i));
    this.#end(words, this.#outer);
    return words;
  }

  /** HMAC of a digest, in place. */
  ofWords(words: Int32Array): void {
    this.#end(words, this.#inner);
    this.#end(words, this.#outer);
  }

  wipe(): void {
    wipe(this.#innerPad);
    for (const words of [this.#inner, this.#outer, this.#schedule]) words.fill(0);
  }

  #started(pad: Bytes): Int32Array {
    const view = new DataView(pad.buffer);
    const chain = Int32Array.from(SHA1_INITIAL_STATE);
    for (let i = 0; i < 16; i++) this.#schedule[i] = view.getInt32(4 * i);
    compressSha1(chain, this.#schedule);
    return chain;
  }

  /** The last block of a message of 84 bytes: a pad, then these words. */
  #end(words: Int32Array, started: Int32Array): void {
    const schedule = this.#schedule;
    schedule.set(words);
    schedule[5] = 0x8000_0000;
    schedule.fill(0, 6, 15);
    schedule[15] = 8 * (MD_BLOCK_BYTES + DIGEST_BYTES);
    words.set(started);
    compressSha1(words, schedule);
  }
}

function digestOf(pieces: readonly Bytes[]): Bytes {
  const hasher = sha1Javascript.create();
  for (const piece of pieces) hasher.update(piece);
  return hasher.digest();
}
