import { type Bytes, concatBytes, EMPTY_BYTES } from "../../base/bytes.ts";
import { LimitError } from "../../base/errors.ts";
import { blake2b } from "../digest/blake2b.ts";
import { type Argon2Parameters, checkArgon2 } from "./argon2.ts";
import { wipe } from "./secrets.ts";

/** A block of Argon2's memory. */
export const ARGON2_BLOCK_BYTES = 1024;
/** Slices of a pass. Lanes may read each other's finished slices. */
export const ARGON2_SLICES = 4;
/** RFC 9106 §3.1: version, and y for Argon2id. */
const VERSION = 0x13;
/** y of §3.1. */
export const ARGON2_TYPE = 2;

/** RFC 9106 also allows a key and associated data; its test vectors use them. */
export interface Argon2Extras {
  readonly secret?: Bytes;
  readonly data?: Bytes;
}

/** A quarter of a lane, in one pass. */
export interface Argon2Segment {
  readonly pass: number;
  readonly slice: number;
  readonly lane: number;
}

/** The memory matrix of RFC 9106 §3.2, lane by lane. */
export interface Argon2Memory {
  writeBlock(index: number, bytes: Bytes): void;
  readBlock(index: number): Bytes;
  fillSegment(segment: Argon2Segment): void;
  /** Overwrites it all. */
  wipe(): void;
}

/** The size of the matrix: blocks per segment; a lane has four segments. */
export interface Argon2Shape extends Argon2Parameters {
  readonly segmentBlocks: number;
}

/** Argon2id (RFC 9106) on any implementation of its memory, one lane after the other. */
export async function runArgon2(
  makeMemory: (shape: Argon2Shape) => Argon2Memory,
  password: Bytes,
  { parameters, extras = {} }: { readonly parameters: Argon2Parameters; readonly extras?: Argon2Extras | undefined },
): Promise<Bytes> {
  checkArgon2(parameters);
  const { lanes, passes, memoryKib, byteLength } = parameters;
  const segmentBlocks = Math.floor(memoryKib / (ARGON2_SLICES * lanes));
  const laneBlocks = ARGON2_SLICES * segmentBlocks;
  const memory = allocate(() => makeMemory({ ...parameters, segmentBlocks }), memoryKib);
  const hash = initialHash(password, parameters, extras);
  for (let lane = 0; lane < lanes; lane++) {
    for (let i = 0; i < 2; i++) {
      const block = longHash(concatBytes([hash, u32(i), u32(lane)]), ARGON2_BLOCK_BYTES);
      memory.writeBlock(lane * laneBlocks + i, block);
    }
  }
  for (let pass = 0; pass < passes; pass++) {
    for (let slice = 0; slice < ARGON2_SLICES; slice++) {
      for (let lane = 0; lane < lanes; lane++) memory.fillSegment({ pass, slice, lane });
      // A turn of the event loop keeps a page responsive while it derives a key.
      await new Promise((resolve) => setTimeout(resolve));
    }
  }
  const sum = new Uint8Array(ARGON2_BLOCK_BYTES);
  for (let lane = 0; lane < lanes; lane++) {
    memory.readBlock(lane * laneBlocks + laneBlocks - 1).forEach((byte, i) => {
      sum[i] = (sum[i] as number) ^ byte;
    });
  }
  const result = longHash(sum, byteLength);
  memory.wipe();
  wipe(hash, sum);
  return result;
}

/** A host without that much memory throws its own RangeError. */
function allocate(make: () => Argon2Memory, memoryKib: number): Argon2Memory {
  try {
    return make();
  } catch (cause) {
    const message = `Cannot run Argon2id: ${memoryKib} KiB of memory must be free, and the host does not give them`;
    throw new LimitError("limit/argon2.memory", message, { source: "engine" }, { cause });
  }
}

/** H0 of §3.2. */
function initialHash(password: Bytes, parameters: Argon2Parameters, { secret, data }: Argon2Extras): Bytes {
  const { salt, memoryKib, passes, lanes, byteLength } = parameters;
  const sized = (bytes: Bytes): Bytes[] => [u32(bytes.byteLength), bytes];
  const input = concatBytes([
    ...[lanes, byteLength, memoryKib, passes, VERSION, ARGON2_TYPE].map(u32),
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
