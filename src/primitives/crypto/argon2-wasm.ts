import type { Bytes } from "../../base/bytes.ts";
import { decodeBase64 } from "../../base/text.ts";
import type { KernelExports } from "../../kernels/load.ts";
import type { Argon2id } from "./argon2.ts";
import {
  ARGON2_BLOCK_BYTES,
  ARGON2_SLICES,
  type Argon2Memory,
  type Argon2Segment,
  type Argon2Shape,
  runArgon2,
} from "./argon2-run.ts";

/** What src/kernels/argon2.as.ts exports. */
interface Argon2Kernel extends KernelExports {
  blocks(): number;
  fillSegment(pass: number, slice: number, lane: number, passes: number, lanes: number, segmentBlocks: number): void;
}

const PAGE_BYTES = 0x1_0000;

/** Argon2id with its memory in WebAssembly. Each call has its own instance, which is dropped after the result. */
export async function loadArgon2Wasm(): Promise<Argon2id> {
  const { WASM } = await import("../../kernels/generated/argon2.ts");
  const module = await WebAssembly.compile(decodeBase64(WASM) ?? new Uint8Array(0));
  return async (password, parameters) => {
    const instance = await WebAssembly.instantiate(module);
    const kernel = instance.exports as unknown as Argon2Kernel;
    return runArgon2((shape) => new WasmMemory(kernel, shape), password, { parameters });
  };
}

class WasmMemory implements Argon2Memory {
  readonly #kernel: Argon2Kernel;
  readonly #shape: Argon2Shape;
  readonly #blocks: Bytes;

  constructor(kernel: Argon2Kernel, shape: Argon2Shape) {
    this.#kernel = kernel;
    this.#shape = shape;
    const byteLength = shape.lanes * ARGON2_SLICES * shape.segmentBlocks * ARGON2_BLOCK_BYTES;
    const missing = kernel.blocks() + byteLength - kernel.memory.buffer.byteLength;
    if (missing > 0) kernel.memory.grow(Math.ceil(missing / PAGE_BYTES));
    this.#blocks = new Uint8Array(kernel.memory.buffer as ArrayBuffer, kernel.blocks(), byteLength);
  }

  writeBlock(index: number, bytes: Bytes): void {
    this.#blocks.set(bytes, index * ARGON2_BLOCK_BYTES);
  }

  readBlock(index: number): Bytes {
    return this.#blocks.slice(index * ARGON2_BLOCK_BYTES, (index + 1) * ARGON2_BLOCK_BYTES);
  }

  fillSegment({ pass, slice, lane }: Argon2Segment): void {
    const { passes, lanes, segmentBlocks } = this.#shape;
    this.#kernel.fillSegment(pass, slice, lane, passes, lanes, segmentBlocks);
  }

  wipe(): void {
    this.#blocks.fill(0);
  }
}
