import type { Bytes } from "../../base/bytes.ts";
import { equalSecrets } from "../crypto/hmac.ts";
import { wipe } from "../crypto/secrets.ts";
import { AES_KEY_BYTES } from "./aes.ts";
import { AesCipher } from "./aes-cipher.ts";
import { Ghash, timesX } from "./aes-javascript.ts";
import {
  checkGcmSiv,
  derivationBlocks,
  derivedKeys,
  encodeLengths,
  firstCounter,
  GCM_SIV_TAG_BYTES,
  type GcmSiv,
  type GcmSivKey,
  roomFor,
  tagInput,
  wipedKey,
} from "./gcm-siv.ts";

const BLOCK_BYTES = 16;

/** AES-256-GCM-SIV in plain TypeScript, for hosts that cannot compile WebAssembly. Looks up tables: see AesCipher. */
export const gcmSivJavascript: GcmSiv = (key) => new JavascriptGcmSivKey(key);

class JavascriptGcmSivKey implements GcmSivKey {
  #master: AesCipher | undefined;

  constructor(key: Bytes) {
    checkGcmSiv("key", key);
    this.#master = new AesCipher(key);
  }

  seal(nonce: Bytes, plain: Bytes, associated: Bytes, into?: Bytes): Bytes {
    const end = plain.byteLength;
    const room = roomFor(into, end + GCM_SIV_TAG_BYTES);
    const message = this.#derive(nonce);
    const tag = message.tag(nonce, plain, associated);
    message.addStream(tag, plain, room);
    room.set(tag, end);
    message.wipe();
    return room;
  }

  open(nonce: Bytes, sealed: Bytes, associated: Bytes, into?: Bytes): Bytes | undefined {
    const end = sealed.byteLength - GCM_SIV_TAG_BYTES;
    if (end < 0) return undefined;
    const tag = sealed.slice(end);
    const room = roomFor(into, end);
    const message = this.#derive(nonce);
    message.addStream(tag, sealed.subarray(0, end), room);
    const isRight = equalSecrets(message.tag(nonce, room, associated), tag);
    message.wipe();
    if (isRight) return room;
    wipe(room);
    return undefined;
  }

  wipe(): void {
    this.#master?.wipe();
    this.#master = undefined;
  }

  #derive(nonce: Bytes): Message {
    checkGcmSiv("nonce", nonce);
    const master = this.#master;
    if (master === undefined) throw wipedKey();
    const blocks = derivationBlocks(nonce);
    for (let at = 0; at < blocks.byteLength; at += BLOCK_BYTES) encryptBlock(master, blocks, at);
    const keys = derivedKeys(blocks);
    const message = new Message(keys);
    wipe(keys, blocks);
    return message;
  }
}

/** The two keys of one message. */
class Message {
  readonly #cipher: AesCipher;
  readonly #subkey = new Int32Array(4);

  constructor(keys: Bytes) {
    this.#cipher = new AesCipher(keys.slice(BLOCK_BYTES, BLOCK_BYTES + AES_KEY_BYTES));
    // RFC 8452 appendix A: POLYVAL is GHASH of the bytes in reverse, under the key in reverse times x.
    const view = new DataView(keys.slice(0, BLOCK_BYTES).reverse().buffer);
    for (let i = 0; i < 4; i++) this.#subkey[i] = view.getInt32(4 * i);
    timesX(this.#subkey);
  }

  tag(nonce: Bytes, plain: Bytes, associated: Bytes): Bytes {
    const ghash = new Ghash(this.#subkey);
    for (const part of [associated, plain, encodeLengths(associated.byteLength, plain.byteLength)]) {
      ghash.update(reverseBlocks(part));
    }
    const tag = tagInput(ghash.digest(new Int32Array(4)).reverse(), nonce);
    encryptBlock(this.#cipher, tag, 0);
    return tag;
  }

  /** Counter mode of RFC 8452 §4: the first 32 bits of the block count, little-endian. */
  addStream(tag: Bytes, from: Bytes, to: Bytes): void {
    const counter = new DataView(firstCounter(tag).buffer);
    const state = new Int32Array(4);
    const block = new Uint8Array(BLOCK_BYTES);
    const words = new DataView(block.buffer);
    const byteLength = from.byteLength;
    for (let at = 0; at < byteLength; at += BLOCK_BYTES) {
      for (let i = 0; i < 4; i++) state[i] = counter.getInt32(4 * i);
      this.#cipher.encrypt(state);
      for (let i = 0; i < 4; i++) words.setInt32(4 * i, state[i] as number);
      const end = Math.min(BLOCK_BYTES, byteLength - at);
      for (let i = 0; i < end; i++) to[at + i] = (from[at + i] as number) ^ (block[i] as number);
      counter.setUint32(0, counter.getUint32(0, true) + 1, true);
    }
  }

  wipe(): void {
    this.#cipher.wipe();
    this.#subkey.fill(0);
  }
}

/** Pads with zeros to whole blocks and reverses each block. */
function reverseBlocks(bytes: Bytes): Bytes {
  const reversed = new Uint8Array(Math.ceil(bytes.byteLength / BLOCK_BYTES) * BLOCK_BYTES);
  reversed.set(bytes);
  for (let at = 0; at < reversed.byteLength; at += BLOCK_BYTES) reversed.subarray(at, at + BLOCK_BYTES).reverse();
  return reversed;
}

function encryptBlock(cipher: AesCipher, bytes: Bytes, at: number): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset + at, BLOCK_BYTES);
  const state = Int32Array.from([0, 4, 8, 12], (offset) => view.getInt32(offset));
  cipher.encrypt(state);
  state.forEach((word, i) => {
    view.setInt32(4 * i, word);
  });
}
