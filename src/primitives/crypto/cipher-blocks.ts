import type { Bytes } from "../../base/bytes.ts";
import {
  AES_BLOCK_BYTES,
  type AesBlocks,
  checkAesKey,
  checkBlocks,
  type MakeAesBlocks,
  wipedBlocks,
} from "./aes-blocks.ts";
import { AesCipher } from "./aes-cipher.ts";
import type { BlockCipher } from "./gcm-siv-kernel.ts";

/** AES-256 on blocks over a cipher that takes so many bytes at a time. */
export class CipherBlocks implements AesBlocks {
  #cipher: BlockCipher | undefined;
  readonly #windowBytes: number;

  constructor(cipher: BlockCipher, windowBytes: number) {
    this.#cipher = cipher;
    this.#windowBytes = windowBytes;
  }

  encrypt(blocks: Bytes): Bytes {
    const cipher = this.#ready(blocks);
    const result = new Uint8Array(blocks.byteLength);
    for (let at = 0; at < blocks.byteLength; at += this.#windowBytes) {
      result.set(cipher.encrypt(blocks.subarray(at, at + this.#windowBytes)), at);
    }
    return result;
  }

  chain(blocks: Bytes): Bytes {
    const cipher = this.#ready(blocks);
    const state = new Uint8Array(AES_BLOCK_BYTES);
    for (let at = 0; at < blocks.byteLength; at += AES_BLOCK_BYTES) {
      for (let i = 0; i < AES_BLOCK_BYTES; i++) state[i] = (state[i] as number) ^ (blocks[at + i] as number);
      state.set(cipher.encrypt(state));
    }
    return state;
  }

  wipe(): void {
    this.#cipher?.wipe();
    this.#cipher = undefined;
  }

  #ready(blocks: Bytes): BlockCipher {
    checkBlocks(blocks);
    if (this.#cipher === undefined) throw wipedBlocks();
    return this.#cipher;
  }
}

/** How much the plain form enciphers before it hands it on. */
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
