import type { Bytes } from "../../base/bytes.ts";
import { type KernelExports, loadKernel } from "../../kernels/load.ts";
import { BLAKE3_CHUNK_BYTES, BLAKE3_CV_BYTES } from "./blake3.ts";
import type { Blake3Core, Blake3Domain, CvSlot } from "./implementation.ts";

/** What src/kernels/blake3.as.ts exports. */
interface Blake3Kernel extends KernelExports {
  input(): number;
  key(): number;
  output(): number;
  maxChunks(): number;
  subtree(count: number, counterLow: number, counterHigh: number, flags: number): void;
  chunk(byteLength: number, counterLow: number, counterHigh: number, flags: number, lastFlags: number): void;
  parent(flags: number): void;
}

/** BLAKE3 four chunks at a time in WebAssembly SIMD. */
export async function loadBlake3Wasm(): Promise<Blake3Core> {
  const { WASM } = await import("../../kernels/generated/blake3.ts");
  return new Blake3Wasm(await loadKernel<Blake3Kernel>(WASM));
}

/** Every call copies its input in and its result out, so any number of hashers share one kernel. */
class Blake3Wasm implements Blake3Core {
  readonly maxChunks: number;
  readonly #kernel: Blake3Kernel;
  readonly #memory: Bytes;
  readonly #input: number;
  readonly #key: number;
  readonly #output: number;

  constructor(kernel: Blake3Kernel) {
    this.#kernel = kernel;
    this.#memory = new Uint8Array(kernel.memory.buffer as ArrayBuffer);
    this.#input = kernel.input();
    this.#key = kernel.key();
    this.#output = kernel.output();
    this.maxChunks = kernel.maxChunks();
  }

  subtree(domain: Blake3Domain, input: Bytes, counter: number, out: CvSlot): void {
    this.#load(domain, input);
    this.#kernel.subtree(input.byteLength / BLAKE3_CHUNK_BYTES, counter, counter / 0x1_0000_0000, domain.flags);
    this.#store(out);
  }

  chunk(domain: Blake3Domain, input: Bytes, counter: number, flags: number, out: CvSlot): void {
    this.#load(domain, input);
    this.#kernel.chunk(input.byteLength, counter, counter / 0x1_0000_0000, domain.flags, flags);
    this.#store(out);
  }

  parent(domain: Blake3Domain, pair: CvSlot, flags: number): void {
    this.#load(domain, pair.bytes.subarray(pair.offset, pair.offset + 2 * BLAKE3_CV_BYTES));
    this.#kernel.parent(domain.flags | flags);
    this.#store(pair);
  }

  #load(domain: Blake3Domain, input: Bytes): void {
    this.#memory.set(domain.key, this.#key);
    this.#memory.set(input, this.#input);
  }

  #store(out: CvSlot): void {
    out.bytes.set(this.#memory.subarray(this.#output, this.#output + BLAKE3_CV_BYTES), out.offset);
  }
}
