import type { Bytes } from "../../base/bytes.ts";
import type { Argon2Parameters } from "./argon2.ts";
import { ARGON2_BLOCK_WORDS, compressBlock } from "./argon2-block.ts";
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

/** Argon2id (RFC 9106) in plain TypeScript. Memory is what the parameters say. */
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

  /** §3.4.1.2: numbers that depend on the position only, so that they tell nothing of the password. */
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
