import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { type Aes, canBeWrapped, GCM_TAG_BYTES, type GcmKey } from "./aes.ts";
import { AesCipher } from "./aes-cipher.ts";
import { Ghash } from "./ghash.ts";
import { equalSecrets } from "./hmac.ts";

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
    // Room for whole blocks; what the last one has too much is cut off.
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

/** RFC 3394 §2.2.1, with the indexes of the text. */
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
