import type { Bytes } from "../../base/bytes.ts";

/** Four bits at a time: sixteen multiples of the subkey, of four words each. */
const ENTRIES = 16;

/** x^128 + x^7 + x^2 + x + 1, bits reversed (SP 800-38D §6.3): what is added for each bit that falls out. */
const REDUCTION = 0xe1000000 | 0;

/** GHASH of SP 800-38D §6.4. Every update is padded to whole blocks, as GCM wants for its two parts. */
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

/** What four bits that fall out add to the first word. */
function foldOf(bits: number): number {
  const words = Int32Array.of(0, 0, 0, bits);
  for (let i = 0; i < 4; i++) timesX(words);
  return words[0] as number;
}
