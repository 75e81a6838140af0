import { type Bytes, concatBytes, EMPTY_BYTES } from "../../base/bytes.ts";
import { type Argon2Parameters, checkArgon2 } from "./argon2.ts";
import { ARGON2_BLOCK_WORDS, compressBlock } from "./argon2-block.ts";
import { blake2b } from "./blake2b.ts";

const BLOCK_BYTES = 4 * ARGON2_BLOCK_WORDS;
/** RFC 9106 §3.1: version, and y for Argon2id. */
const VERSION = 0x13;
const TYPE = 2;
/** Slices of a pass; between them lanes may look at each other. */
const SLICES = 4;
/** Pseudo-random numbers in a block of addresses. */
const ADDRESSES = 128;

/** RFC 9106 allows a key and more data beside the password; its test vectors use them. */
export interface Argon2Extras {
  readonly secret?: Bytes;
  readonly data?: Bytes;
}

/** Argon2id (RFC 9106) in plain TypeScript, one lane after the other. Memory is what the parameters say. */
export async function argon2Javascript(
  password: Bytes,
  parameters: Argon2Parameters,
  extras: Argon2Extras = {},
): Promise<Bytes> {
  checkArgon2(parameters);
  const filling = new Filling(parameters);
  filling.start(initialHash(password, parameters, extras));
  for (let pass = 0; pass < parameters.passes; pass++) {
    for (let slice = 0; slice < SLICES; slice++) {
      for (let lane = 0; lane < parameters.lanes; lane++) filling.fillSegment({ pass, slice, lane });
      // A turn of the event loop: a page that derives a key stays alive.
      await new Promise((resolve) => setTimeout(resolve));
    }
  }
  return filling.finish();
}

interface Segment {
  readonly pass: number;
  readonly slice: number;
  readonly lane: number;
}

/** The memory matrix, RFC 9106 §3.2. */
class Filling {
  readonly #parameters: Argon2Parameters;
  readonly #memory: Uint32Array;
  /** q: blocks of a lane. */
  readonly #laneBlocks: number;
  readonly #segmentBlocks: number;
  readonly #addresses = new Uint32Array(ARGON2_BLOCK_WORDS);

  constructor(parameters: Argon2Parameters) {
    this.#parameters = parameters;
    this.#segmentBlocks = Math.floor(parameters.memoryKib / (SLICES * parameters.lanes));
    this.#laneBlocks = SLICES * this.#segmentBlocks;
    this.#memory = new Uint32Array(this.#laneBlocks * parameters.lanes * ARGON2_BLOCK_WORDS);
  }

  start(hash: Bytes): void {
    for (let lane = 0; lane < this.#parameters.lanes; lane++) {
      for (let i = 0; i < 2; i++) {
        const block = longHash(concatBytes([hash, u32(i), u32(lane)]), BLOCK_BYTES);
        const view = new DataView(block.buffer, block.byteOffset);
        const target = this.#block(lane, i);
        for (let w = 0; w < ARGON2_BLOCK_WORDS; w++) target[w] = view.getUint32(4 * w, true);
      }
    }
  }

  fillSegment(segment: Segment): void {
    const { pass, slice, lane } = segment;
    const isIndependent = pass === 0 && slice < SLICES / 2;
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

  finish(): Bytes {
    const sum = new Uint32Array(ARGON2_BLOCK_WORDS);
    for (let lane = 0; lane < this.#parameters.lanes; lane++) {
      const last = this.#block(lane, this.#laneBlocks - 1);
      for (let w = 0; w < ARGON2_BLOCK_WORDS; w++) sum[w] = (sum[w] as number) ^ (last[w] as number);
    }
    const view = new DataView(new ArrayBuffer(BLOCK_BYTES));
    for (let w = 0; w < ARGON2_BLOCK_WORDS; w++) view.setUint32(4 * w, sum[w] as number, true);
    this.#memory.fill(0);
    return longHash(new Uint8Array(view.buffer), this.#parameters.byteLength);
  }

  #block(lane: number, index: number): Uint32Array {
    const start = (lane * this.#laneBlocks + index) * ARGON2_BLOCK_WORDS;
    return this.#memory.subarray(start, start + ARGON2_BLOCK_WORDS);
  }

  /** §3.4.1.2: numbers that depend on the position only, so that they tell nothing of the password. */
  #nextAddresses({ pass, slice, lane }: Segment, counter: number): void {
    const input = new Uint32Array(ARGON2_BLOCK_WORDS);
    const { lanes, passes } = this.#parameters;
    [pass, lane, slice, this.#laneBlocks * lanes, passes, TYPE, counter].forEach((value, i) => {
      input[2 * i] = value;
    });
    const zero = new Uint32Array(ARGON2_BLOCK_WORDS);
    compressBlock(zero, input, this.#addresses, "replace");
    compressBlock(zero, this.#addresses.slice(), this.#addresses, "replace");
  }

  /** §3.4.2: which earlier block is mixed in. */
  #reference({ pass, slice, lane }: Segment, index: number, [j1, j2]: readonly [number, number]): Uint32Array {
    const refLane = pass === 0 && slice === 0 ? lane : j2 % this.#parameters.lanes;
    const finished = pass === 0 ? slice * this.#segmentBlocks : this.#laneBlocks - this.#segmentBlocks;
    const own = refLane === lane ? index - 1 : index === 0 ? -1 : 0;
    const area = finished + own;
    const x = highProduct(j1, j1);
    const back = area - 1 - highProduct(area, x);
    const start = pass === 0 || slice === SLICES - 1 ? 0 : (slice + 1) * this.#segmentBlocks;
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

/** H0 of §3.2. */
function initialHash(password: Bytes, parameters: Argon2Parameters, { secret, data }: Argon2Extras): Bytes {
  const { salt, memoryKib, passes, lanes, byteLength } = parameters;
  const sized = (bytes: Bytes): Bytes[] => [u32(bytes.byteLength), bytes];
  const input = concatBytes([
    ...[lanes, byteLength, memoryKib, passes, VERSION, TYPE].map(u32),
    ...sized(password),
    ...sized(salt),
    ...sized(secret ?? EMPTY_BYTES),
    ...sized(data ?? EMPTY_BYTES),
  ]);
  const hash = blake2b(input, 64);
  input.fill(0);
  return hash;
}

/** H' of §3.3: BLAKE2b of any length. */
function longHash(input: Bytes, byteLength: number): Bytes {
  const prefixed = concatBytes([u32(byteLength), input]);
  if (byteLength <= 64) return blake2b(prefixed, byteLength);
  const pieces: Bytes[] = [];
  let left = byteLength;
  let last = blake2b(prefixed, 64);
  for (; left > 64; left -= 32) {
    pieces.push(last.subarray(0, 32));
    last = blake2b(last, Math.min(64, left - 32));
  }
  return concatBytes([...pieces, last]);
}

function u32(value: number): Bytes {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value, true);
  return bytes;
}
