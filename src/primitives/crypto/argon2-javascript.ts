import type { Bytes } from "../../base/bytes.ts";
import type { Argon2Parameters } from "./argon2.ts";
import {
  ARGON2_BLOCK_BYTES,
  ARGON2_SLICES,
  ARGON2_TYPE,
  type Argon2Extras,
  type Argon2Memory,
  type Argon2Segment,
  type Argon2Shape,
  runArgon2,
} from "./argon2-run.ts";

/** Pseudo-random numbers in a block of addresses. */
const ADDRESSES = 128;

/** Argon2id (RFC 9106) in plain TypeScript. It takes as much memory as the parameters say. */
export function argon2Javascript(password: Bytes, parameters: Argon2Parameters, extras?: Argon2Extras): Promise<Bytes> {
  return runArgon2((shape) => new JavascriptMemory(shape), password, { parameters, extras });
}

class JavascriptMemory implements Argon2Memory {
  readonly #shape: Argon2Shape;
  readonly #memory: Uint32Array;
  /** q: blocks of a lane. */
  readonly #laneBlocks: number;
  readonly #segmentBlocks: number;
  readonly #addresses = new Uint32Array(ARGON2_BLOCK_WORDS);

  constructor(shape: Argon2Shape) {
    this.#shape = shape;
    this.#segmentBlocks = shape.segmentBlocks;
    this.#laneBlocks = ARGON2_SLICES * this.#segmentBlocks;
    this.#memory = new Uint32Array(this.#laneBlocks * shape.lanes * ARGON2_BLOCK_WORDS);
  }

  writeBlock(index: number, bytes: Bytes): void {
    const view = new DataView(bytes.buffer, bytes.byteOffset);
    const target = this.#block(0, index);
    for (let w = 0; w < ARGON2_BLOCK_WORDS; w++) target[w] = view.getUint32(4 * w, true);
  }

  readBlock(index: number): Bytes {
    const view = new DataView(new ArrayBuffer(ARGON2_BLOCK_BYTES));
    this.#block(0, index).forEach((word, w) => {
      view.setUint32(4 * w, word, true);
    });
    return new Uint8Array(view.buffer);
  }

  wipe(): void {
    this.#memory.fill(0);
  }

  fillSegment(segment: Argon2Segment): void {
    const { pass, slice, lane } = segment;
    const isIndependent = pass === 0 && slice < ARGON2_SLICES / 2;
    const first = pass === 0 && slice === 0 ? 2 : 0;
    for (let index = 0; index < this.#segmentBlocks; index++) {
      if (isIndependent && index % ADDRESSES === 0) this.#nextAddresses(segment, index / ADDRESSES + 1);
      if (index < first) continue;
      const at = slice * this.#segmentBlocks + index;
      const previous = this.#block(lane, at === 0 ? this.#laneBlocks - 1 : at - 1);
      const numbers = isIndependent ? this.#addresses : previous;
      const place = isIndependent ? 2 * (index % ADDRESSES) : 0;
      const reference = this.#reference(segment, index, [numbers[place] as number, numbers[place + 1] as number]);
      compressBlock(previous, reference, this.#block(lane, at), pass === 0 ? "replace" : "combine");
    }
  }

  #block(lane: number, index: number): Uint32Array {
    const start = (lane * this.#laneBlocks + index) * ARGON2_BLOCK_WORDS;
    return this.#memory.subarray(start, start + ARGON2_BLOCK_WORDS);
  }

  /** §3.4.1.2: numbers that depend on the position only, so that they reveal nothing about the password. */
  #nextAddresses({ pass, slice, lane }: Argon2Segment, counter: number): void {
    const input = new Uint32Array(ARGON2_BLOCK_WORDS);
    const { lanes, passes } = this.#shape;
    [pass, lane, slice, this.#laneBlocks * lanes, passes, ARGON2_TYPE, counter].forEach((value, i) => {
      input[2 * i] = value;
    });
    const zero = new Uint32Array(ARGON2_BLOCK_WORDS);
    compressBlock(zero, input, this.#addresses, "replace");
    compressBlock(zero, this.#addresses.slice(), this.#addresses, "replace");
  }

  /** §3.4.2: which earlier block is mixed in. */
  #reference({ pass, slice, lane }: Argon2Segment, index: number, [j1, j2]: readonly [number, number]): Uint32Array {
    const refLane = pass === 0 && slice === 0 ? lane : j2 % this.#shape.lanes;
    const finished = pass === 0 ? slice * this.#segmentBlocks : this.#laneBlocks - this.#segmentBlocks;
    const own = refLane === lane ? index - 1 : index === 0 ? -1 : 0;
    const area = finished + own;
    const x = highProduct(j1, j1);
    const back = area - 1 - highProduct(area, x);
    const start = pass === 0 || slice === ARGON2_SLICES - 1 ? 0 : (slice + 1) * this.#segmentBlocks;
    return this.#block(refLane, (start + back) % this.#laneBlocks);
  }
}

/** The upper 32 bits of the product of two words. */
function highProduct(a: number, b: number): number {
  const [al, ah, bl, bh] = [a & 0xffff, a >>> 16, b & 0xffff, b >>> 16];
  const middle = ah * bl + Math.floor((al * bl) / 0x1_0000);
  const low = (middle % 0x1_0000) + al * bh;
  return ah * bh + Math.floor(middle / 0x1_0000) + Math.floor(low / 0x1_0000);
}

/** 1024 bytes as 32-bit words, low word of each pair first. */
const ARGON2_BLOCK_WORDS = 256;

const mixed = new Int32Array(ARGON2_BLOCK_WORDS);

/** G of RFC 9106 §3.5: writes the compression of the two blocks to `target`, or adds it to what `target` held. */
function compressBlock(
  previous: Uint32Array,
  reference: Uint32Array,
  target: Uint32Array,
  mode: "replace" | "combine",
): void {
  const keep = mode === "combine" ? -1 : 0;
  for (let i = 0; i < ARGON2_BLOCK_WORDS; i++) {
    const sum = (previous[i] as number) ^ (reference[i] as number);
    mixed[i] = sum;
    target[i] = ((target[i] as number) & keep) ^ sum;
  }
  // Rows of sixteen 64-bit words, then columns of eight pairs.
  for (let row = 0; row < 8; row++) permute(32 * row, 4);
  for (let column = 0; column < 8; column++) permute(4 * column, 32);
  for (let i = 0; i < ARGON2_BLOCK_WORDS; i++) target[i] = (target[i] as number) ^ (mixed[i] as number);
}

/** P of §3.6 over sixteen 64-bit words: eight pairs that begin at `start` and lie `step` words apart. */
function permute(start: number, step: number): void {
  const b = start + 2 * step;
  const c = start + 4 * step;
  const d = start + 6 * step;
  mix(start, b, c, d);
  mix(start + 2, b + 2, c + 2, d + 2);
  mix(start + step, b + step, c + step, d + step);
  mix(start + step + 2, b + step + 2, c + step + 2, d + step + 2);
  mix(start, b + 2, c + step, d + step + 2);
  mix(start + 2, b + step, c + step + 2, d);
  mix(start + step, b + step + 2, c, d + 2);
  mix(start + step + 2, b, c + 2, d + step);
}

/**
 * GB of §3.6: BLAKE2b's mixing with a product in every sum. Arguments are the indexes of the low words. Written out
 * with every word in a variable: Argon2 spends all its time here, and calls for the steps would triple it.
 */
function mix(a: number, b: number, c: number, d: number): void {
  let al = mixed[a] as number;
  let ah = mixed[a + 1] as number;
  let bl = mixed[b] as number;
  let bh = mixed[b + 1] as number;
  let cl = mixed[c] as number;
  let ch = mixed[c + 1] as number;
  let dl = mixed[d] as number;
  let dh = mixed[d + 1] as number;
  let turned = 0;

  ah = sumHigh(al, ah, bl, bh);
  al = sumLow(al, bl);
  turned = dl ^ al;
  dl = dh ^ ah;
  dh = turned;
  ch = sumHigh(cl, ch, dl, dh);
  cl = sumLow(cl, dl);
  bl ^= cl;
  bh ^= ch;
  turned = (bl >>> 24) | (bh << 8);
  bh = (bh >>> 24) | (bl << 8);
  bl = turned;

  ah = sumHigh(al, ah, bl, bh);
  al = sumLow(al, bl);
  dl ^= al;
  dh ^= ah;
  turned = (dl >>> 16) | (dh << 16);
  dh = (dh >>> 16) | (dl << 16);
  dl = turned;
  ch = sumHigh(cl, ch, dl, dh);
  cl = sumLow(cl, dl);
  bl ^= cl;
  bh ^= ch;
  turned = (bl << 1) | (bh >>> 31);
  bh = (bh << 1) | (bl >>> 31);
  bl = turned;

  mixed[a] = al;
  mixed[a + 1] = ah;
  mixed[b] = bl;
  mixed[b + 1] = bh;
  mixed[c] = cl;
  mixed[c + 1] = ch;
  mixed[d] = dl;
  mixed[d + 1] = dh;
}

/** The low word of x + y + 2 · low(x) · low(y). */
function sumLow(x: number, y: number): number {
  return (x + y + (Math.imul(x, y) << 1)) | 0;
}

/** The high word of the same sum. */
function sumHigh(x: number, xHigh: number, y: number, yHigh: number): number {
  const xl = x & 0xffff;
  const xh = x >>> 16;
  const yl = y & 0xffff;
  const yh = y >>> 16;
  // Two columns of the long multiplication, each below 2^32.
  const middle = (Math.imul(xh, yl) + (Math.imul(xl, yl) >>> 16)) | 0;
  const lower = (Math.imul(xl, yh) + (middle & 0xffff)) | 0;
  const high = (Math.imul(xh, yh) + (middle >>> 16) + (lower >>> 16)) | 0;
  const low = Math.imul(x, y);
  const doubled = low << 1;
  const first = (x + y) | 0;
  const second = (first + doubled) | 0;
  // A sum of two words has a carry if it is below either of them, compared without sign.
  const carry = (first >>> 0 < x >>> 0 ? 1 : 0) + (second >>> 0 < doubled >>> 0 ? 1 : 0);
  return (xHigh + yHigh + ((high << 1) | (low >>> 31)) + carry) | 0;
}
