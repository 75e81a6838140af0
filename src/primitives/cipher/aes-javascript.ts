import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { equalSecrets } from "../crypto/hmac.ts";
import {
  AES_BLOCK_BYTES,
  type Aes,
  type BlockCipher,
  CipherBlocks,
  canBeWrapped,
  checkAesKey,
  GCM_TAG_BYTES,
  type GcmKey,
  type MakeAesBlocks,
} from "./aes.ts";
import { AesCipher } from "./aes-cipher.ts";

/** RFC 3394 §2.2.3.1. */
const WRAP_CHECK = new Uint8Array(8).fill(0xa6);
const WRAP_TURNS = 6;

/** AES-256 in plain TypeScript, for hosts without WebCrypto: pages that came over plain http. */
export const aesJavascript: Aes = {
  gcm: async (key) => new JavascriptGcm(key),
  wrapKey: async (wrappingKey, key) => wrap(new AesCipher(wrappingKey), key),
  unwrapKey: async (wrappingKey, wrapped) => unwrap(new AesCipher(wrappingKey), wrapped),
};

class JavascriptGcm implements GcmKey {
  readonly #cipher: AesCipher;
  readonly #subkey: Int32Array;

  constructor(key: Bytes) {
    this.#cipher = new AesCipher(key);
    this.#subkey = new Int32Array(4);
    this.#cipher.encrypt(this.#subkey);
  }

  async seal(nonce: Bytes, plain: Bytes, associated: Bytes): Promise<Bytes> {
    const text = this.#count(nonce, plain);
    return concatBytes([text, this.#tag(nonce, text, associated)]);
  }

  async open(nonce: Bytes, sealed: Bytes, associated: Bytes): Promise<Bytes | undefined> {
    const end = sealed.byteLength - GCM_TAG_BYTES;
    if (end < 0) return undefined;
    const text = sealed.subarray(0, end);
    const tag = this.#tag(nonce, text, associated);
    return equalSecrets(tag, sealed.subarray(end)) ? this.#count(nonce, text) : undefined;
  }

  /** Counter mode from 2 on: 1 is for the tag (SP 800-38D §7.1). */
  #count(nonce: Bytes, input: Bytes): Bytes {
    // Room for whole blocks. The excess of the last one is cut off.
    const room = new Uint8Array(Math.ceil(input.byteLength / 16) * 16);
    room.set(input);
    const text = new DataView(room.buffer);
    const view = new DataView(nonce.buffer, nonce.byteOffset, nonce.byteLength);
    const state = new Int32Array(4);
    for (let at = 0, counter = 2; at < room.byteLength; at += 16, counter++) {
      for (let i = 0; i < 3; i++) state[i] = view.getInt32(4 * i);
      state[3] = counter;
      this.#cipher.encrypt(state);
      for (let i = 0; i < 4; i++) text.setInt32(at + 4 * i, text.getInt32(at + 4 * i) ^ (state[i] as number));
    }
    return room.slice(0, input.byteLength);
  }

  #tag(nonce: Bytes, text: Bytes, associated: Bytes): Bytes {
    const ghash = new Ghash(this.#subkey);
    ghash.update(associated);
    ghash.update(text);
    const lengths = new DataView(new ArrayBuffer(16));
    lengths.setBigUint64(0, BigInt(associated.byteLength) * 8n);
    lengths.setBigUint64(8, BigInt(text.byteLength) * 8n);
    ghash.update(new Uint8Array(lengths.buffer));
    const view = new DataView(nonce.buffer, nonce.byteOffset, nonce.byteLength);
    const state = Int32Array.from([0, 4, 8], (at) => view.getInt32(at));
    const mask = Int32Array.of(...state, 1);
    this.#cipher.encrypt(mask);
    return ghash.digest(mask);
  }
}

/** RFC 3394 §2.2.1, with the RFC's indexes. */
function wrap(cipher: AesCipher, key: Bytes): Bytes {
  const count = key.byteLength / 8;
  const result = concatBytes([WRAP_CHECK, key]);
  const view = new DataView(result.buffer);
  const state = new Int32Array(4);
  for (let j = 0; j < WRAP_TURNS; j++) {
    for (let i = 1; i <= count; i++) {
      load(state, view, i);
      cipher.encrypt(state);
      view.setInt32(0, state[0] as number);
      view.setInt32(4, (state[1] as number) ^ (count * j + i));
      view.setInt32(8 * i, state[2] as number);
      view.setInt32(8 * i + 4, state[3] as number);
    }
  }
  return result;
}

/** RFC 3394 §2.2.2. */
function unwrap(cipher: AesCipher, wrapped: Bytes): Bytes | undefined {
  if (!canBeWrapped(wrapped.byteLength)) return undefined;
  const count = wrapped.byteLength / 8 - 1;
  const result = wrapped.slice();
  const view = new DataView(result.buffer);
  const state = new Int32Array(4);
  for (let j = WRAP_TURNS - 1; j >= 0; j--) {
    for (let i = count; i >= 1; i--) {
      load(state, view, i);
      state[1] = (state[1] as number) ^ (count * j + i);
      cipher.decrypt(state);
      view.setInt32(0, state[0] as number);
      view.setInt32(4, state[1] as number);
      view.setInt32(8 * i, state[2] as number);
      view.setInt32(8 * i + 4, state[3] as number);
    }
  }
  return equalSecrets(result.subarray(0, 8), WRAP_CHECK) ? result.slice(8) : undefined;
}

function load(state: Int32Array, view: DataView, i: number): void {
  state[0] = view.getInt32(0);
  state[1] = view.getInt32(4);
  state[2] = view.getInt32(8 * i);
  state[3] = view.getInt32(8 * i + 4);
}

/** How much the plain cipher takes in one call. */
const PLAIN_WINDOW_BYTES = 4096;

/** In plain TypeScript, for hosts that cannot compile WebAssembly. Looks up tables: see AesCipher. */
export const aesBlocksJavascript: MakeAesBlocks = (key) => {
  checkAesKey(key);
  return new CipherBlocks(plainCipher(key), PLAIN_WINDOW_BYTES);
};

function plainCipher(key: Bytes): BlockCipher {
  const cipher = new AesCipher(key);
  const room = new Uint8Array(PLAIN_WINDOW_BYTES);
  const view = new DataView(room.buffer);
  const state = new Int32Array(4);
  return {
    encrypt(blocks) {
      room.set(blocks);
      for (let at = 0; at < blocks.byteLength; at += AES_BLOCK_BYTES) {
        for (let i = 0; i < 4; i++) state[i] = view.getInt32(at + 4 * i);
        cipher.encrypt(state);
        for (let i = 0; i < 4; i++) view.setInt32(at + 4 * i, state[i] as number);
      }
      return room.subarray(0, blocks.byteLength);
    },
    wipe() {
      cipher.wipe();
      room.fill(0);
    },
  };
}

/** Four bits at a time: sixteen multiples of the subkey, of four words each. */
const ENTRIES = 16;

/** x^128 + x^7 + x^2 + x + 1, bits reversed (SP 800-38D §6.3). Added for each bit that is shifted out. */
const REDUCTION = 0xe1000000 | 0;

/** GHASH of SP 800-38D §6.4. Pads every update to whole blocks, as GCM requires for its two parts. */
export class Ghash {
  readonly #table = new Int32Array(4 * ENTRIES);
  readonly #fold = new Int32Array(ENTRIES);
  readonly #sum = new Int32Array(4);

  constructor(subkey: Int32Array) {
    // Bit 3 of an index is the lowest power, so the table starts at 8 with the subkey itself.
    const entry = Int32Array.from(subkey);
    for (let i = 8; i > 0; i >>= 1) {
      this.#table.set(entry, 4 * i);
      timesX(entry);
    }
    for (let i = 2; i < ENTRIES; i <<= 1) {
      for (let j = 1; j < i; j++) {
        for (let w = 0; w < 4; w++) {
          this.#table[4 * (i + j) + w] = (this.#table[4 * i + w] as number) ^ (this.#table[4 * j + w] as number);
        }
      }
    }
    for (let i = 0; i < ENTRIES; i++) this.#fold[i] = foldOf(i);
  }

  update(bytes: Bytes): void {
    const whole = bytes.byteLength - (bytes.byteLength % 16);
    this.#add(bytes.subarray(0, whole));
    if (whole === bytes.byteLength) return;
    const last = new Uint8Array(16);
    last.set(bytes.subarray(whole));
    this.#add(last);
  }

  /** The sum, with `mask` added: a tag. */
  digest(mask: Int32Array): Bytes {
    const view = new DataView(new ArrayBuffer(16));
    for (let i = 0; i < 4; i++) view.setInt32(4 * i, (this.#sum[i] as number) ^ (mask[i] as number));
    return new Uint8Array(view.buffer);
  }

  #add(blocks: Bytes): void {
    const view = new DataView(blocks.buffer, blocks.byteOffset, blocks.byteLength);
    const sum = this.#sum;
    for (let at = 0; at < blocks.byteLength; at += 16) {
      sum[0] = (sum[0] as number) ^ view.getInt32(at);
      sum[1] = (sum[1] as number) ^ view.getInt32(at + 4);
      sum[2] = (sum[2] as number) ^ view.getInt32(at + 8);
      sum[3] = (sum[3] as number) ^ view.getInt32(at + 12);
      this.#multiply();
    }
  }

  #multiply(): void {
    const table = this.#table;
    const fold = this.#fold;
    const sum = this.#sum;
    let a = 0;
    let b = 0;
    let c = 0;
    let d = 0;
    for (let nibble = 31; nibble >= 0; nibble--) {
      const word = sum[nibble >> 3] as number;
      const index = 4 * ((word >>> (28 - 4 * (nibble & 7))) & 15);
      if (nibble < 31) {
        const out = d & 15;
        d = (d >>> 4) | (c << 28);
        c = (c >>> 4) | (b << 28);
        b = (b >>> 4) | (a << 28);
        a = (a >>> 4) ^ (fold[out] as number);
      }
      a ^= table[index] as number;
      b ^= table[index + 1] as number;
      c ^= table[index + 2] as number;
      d ^= table[index + 3] as number;
    }
    sum[0] = a;
    sum[1] = b;
    sum[2] = c;
    sum[3] = d;
  }
}

/** Times x, which shifts to the right in this order of bits. In place. */
export function timesX(words: Int32Array): void {
  const out = (words[3] as number) & 1;
  for (let i = 3; i > 0; i--) words[i] = ((words[i] as number) >>> 1) | ((words[i - 1] as number) << 31);
  words[0] = ((words[0] as number) >>> 1) ^ (out === 1 ? REDUCTION : 0);
}

/** What four shifted-out bits add to the first word. */
function foldOf(bits: number): number {
  const words = Int32Array.of(0, 0, 0, bits);
  for (let i = 0; i < 4; i++) timesX(words);
  return words[0] as number;
}
