import type { Bytes } from "../../base/bytes.ts";
import { type KernelExports, loadKernel } from "../../kernels/load.ts";
import { SHA256_BLOCK_BYTES, SHA256_STATE_BYTES, type Sha256Core } from "./sha256.ts";

/** What src/kernels/sha256.as.ts exports. */
interface Sha256Kernel extends KernelExports {
  input(): number;
  state(): number;
  maxBlocks(): number;
  compress(blocks: number): void;
}

/** SHA-256 in WebAssembly. Every call copies the state in and out, so any number of hashers share one kernel. */
export async function loadSha256Wasm(): Promise<Sha256Core> {
  const { WASM } = await import("../../kernels/generated/sha256.ts");
  const kernel = await loadKernel<Sha256Kernel>(WASM);
  const memory: Bytes = new Uint8Array(kernel.memory.buffer as ArrayBuffer);
  const input = kernel.input();
  const stateAt = kernel.state();
  const window = kernel.maxBlocks() * SHA256_BLOCK_BYTES;
  return {
    compress(state, blocks) {
      memory.set(state, stateAt);
      for (let position = 0; position < blocks.byteLength; position += window) {
        const piece = blocks.subarray(position, position + window);
        memory.set(piece, input);
        kernel.compress(piece.byteLength / SHA256_BLOCK_BYTES);
      }
      state.set(memory.subarray(stateAt, stateAt + SHA256_STATE_BYTES));
    },
  };
}
