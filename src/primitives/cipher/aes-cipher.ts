import type { Bytes } from "../../base/bytes.ts";

/** AES-256 has fourteen rounds (FIPS 197). */
const ROUNDS = 14;
const KEY_WORDS = 8;

interface Tables {
  readonly box: Uint8Array;
  readonly inverse: Uint8Array;
  /** SubBytes and MixColumns of one byte; the other three columns are rotations of it. */
  readonly mixed: Int32Array;
}

let tables: Tables | undefined;

/** FIPS 197 §5.1.1: the inverse in GF(2^8), then an affine map; made from powers of the generator 3. */
function makeTables(): Tables {
  const box = new Uint8Array(256);
  const inverse = new Uint8Array(256);
  const mixed = new Int32Array(256);
  const powers = new Uint8Array(256);
  const logs = new Uint8Array(256);
  for (let i = 0, x = 1; i < 255; i++) {
    powers[i] = x;
    logs[x] = i;
    x ^= double(x);
  }
  for (let value = 0; value < 256; value++) {
    const i = value === 0 ? 0 : (powers[(255 - (logs[value] as number)) % 255] as number);
    const s = (i ^ rotate8(i, 1) ^ rotate8(i, 2) ^ rotate8(i, 3) ^ rotate8(i, 4) ^ 0x63) & 0xff;
    box[value] = s;
    inverse[s] = value;
    mixed[value] = (double(s) << 24) | (s << 16) | (s << 8) | (double(s) ^ s);
  }
  return { box, inverse, mixed };
}

function double(x: number): number {
  return ((x << 1) ^ (x & 0x80 ? 0x11b : 0)) & 0xff;
}

function rotate8(x: number, count: number): number {
  return (x << count) | (x >>> (8 - count));
}

/**
 * AES-256 on single blocks. Looks up tables, so its time depends on the cache. Only for hosts without their own AES, on
 * machines where no stranger shares the processor's cache with the page.
 */
export class AesCipher {
  readonly #tables: Tables;
  readonly #schedule: Int32Array;

  constructor(key: Bytes) {
    tables ??= makeTables();
    this.#tables = tables;
    this.#schedule = expandKey(key, tables.box);
  }

  /** Overwrites the round keys; nothing can be enciphered afterwards. */
  wipe(): void {
    this.#schedule.fill(0);
  }

  /** In place, on the four words of a block. Written out column by column: calls would cost more than the lookups. */
  encrypt(state: Int32Array): void {
    const { box, mixed } = this.#tables;
    const keys = this.#schedule;
    let a = (state[0] as number) ^ (keys[0] as number);
    let b = (state[1] as number) ^ (keys[1] as number);
    let c = (state[2] as number) ^ (keys[2] as number);
    let d = (state[3] as number) ^ (keys[3] as number);
    for (let i = 4; i < 4 * ROUNDS; i += 4) {
      const e = column(mixed, a, b, c, d) ^ (keys[i] as number);
      const f = column(mixed, b, c, d, a) ^ (keys[i + 1] as number);
      const g = column(mixed, c, d, a, b) ^ (keys[i + 2] as number);
      d = column(mixed, d, a, b, c) ^ (keys[i + 3] as number);
      a = e;
      b = f;
      c = g;
    }
    state[0] = substitute(box, a, b, c, d) ^ (keys[4 * ROUNDS] as number);
    state[1] = substitute(box, b, c, d, a) ^ (keys[4 * ROUNDS + 1] as number);
    state[2] = substitute(box, c, d, a, b) ^ (keys[4 * ROUNDS + 2] as number);
    state[3] = substitute(box, d, a, b, c) ^ (keys[4 * ROUNDS + 3] as number);
  }

  /** The inverse, step by step as in FIPS 197 §5.3. Speed does not matter: only key unwrapping uses it. */
  decrypt(state: Int32Array): void {
    const keys = this.#schedule;
    const { inverse } = this.#tables;
    const add = (round: number): void => {
      for (let i = 0; i < 4; i++) state[i] = (state[i] as number) ^ (keys[4 * round + i] as number);
    };
    add(ROUNDS);
    for (let round = ROUNDS - 1; round >= 0; round--) {
      const [a, b, c, d] = [...state] as [number, number, number, number];
      state[0] = substitute(inverse, a, d, c, b);
      state[1] = substitute(inverse, b, a, d, c);
      state[2] = substitute(inverse, c, b, a, d);
      state[3] = substitute(inverse, d, c, b, a);
      add(round);
      if (round > 0) for (let i = 0; i < 4; i++) state[i] = unmixColumn(state[i] as number);
    }
  }
}

function turn(word: number, count: number): number {
  return (word >>> count) | (word << (32 - count));
}

/** SubBytes, ShiftRows and MixColumns for one column; the tables of the other rows are rotations of the first. */
function column(mixed: Int32Array, w: number, x: number, y: number, z: number): number {
  return (
    (mixed[w >>> 24] as number) ^
    turn(mixed[(x >>> 16) & 0xff] as number, 8) ^
    turn(mixed[(y >>> 8) & 0xff] as number, 16) ^
    turn(mixed[z & 0xff] as number, 24)
  );
}

/** One byte of each word, through the box: ShiftRows and SubBytes together. */
function substitute(box: Uint8Array, w: number, x: number, y: number, z: number): number {
  return (
    ((box[w >>> 24] as number) << 24) |
    ((box[(x >>> 16) & 0xff] as number) << 16) |
    ((box[(y >>> 8) & 0xff] as number) << 8) |
    (box[z & 0xff] as number)
  );
}

/** FIPS 197 §5.3.3: the column times {0b}x³ + {0d}x² + {09}x + {0e}. */
function unmixColumn(word: number): number {
  const bytes = [word >>> 24, (word >>> 16) & 0xff, (word >>> 8) & 0xff, word & 0xff];
  let result = 0;
  for (let row = 0; row < 4; row++) {
    let sum = 0;
    [0x0e, 0x0b, 0x0d, 0x09].forEach((factor, i) => {
      sum ^= multiply(bytes[(row + i) % 4] as number, factor);
    });
    result = (result << 8) | sum;
  }
  return result;
}

function multiply(a: number, b: number): number {
  let product = 0;
  for (let x = a, y = b; y > 0; y >>= 1, x = double(x)) if (y & 1) product ^= x;
  return product;
}

/** FIPS 197 §5.2. */
function expandKey(key: Bytes, box: Uint8Array): Int32Array {
  const view = new DataView(key.buffer, key.byteOffset, key.byteLength);
  const words = new Int32Array(4 * (ROUNDS + 1));
  for (let i = 0; i < KEY_WORDS; i++) words[i] = view.getInt32(4 * i);
  let constant = 1;
  for (let i = KEY_WORDS; i < words.length; i++) {
    let word = words[i - 1] as number;
    if (i % KEY_WORDS === 0) {
      word = turn(word, 24);
      word = substitute(box, word, word, word, word) ^ (constant << 24);
      constant = double(constant);
    } else if (i % KEY_WORDS === 4) word = substitute(box, word, word, word, word);
    words[i] = (words[i - KEY_WORDS] as number) ^ word;
  }
  return words;
}
