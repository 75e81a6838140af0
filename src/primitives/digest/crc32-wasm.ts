import type { Bytes } from "../../base/bytes.ts";
import { type KernelExports, loadKernel } from "../../kernels/load.ts";
import type { Crc32Function } from "./implementation.ts";

/** What src/kernels/crc32.as.ts exports. */
interface Crc32Kernel extends KernelExports {
  input(): number;
  maxBytes(): number;
  start(): void;
  update(byteLength: number, crc: number): number;
}

/** CRC-32 in WebAssembly. */
export async function loadCrc32Wasm(): Promise<Crc32Function> {
  const { WASM } = await import("../../kernels/generated/crc32.ts");
  const kernel = await loadKernel<Crc32Kernel>(WASM);
  kernel.start();
  const memory: Bytes = new Uint8Array(kernel.memory.buffer as ArrayBuffer);
  const input = kernel.input();
  const window = kernel.maxBytes();
  return (bytes, seed) => {
    let crc = ~seed;
    for (let position = 0; position < bytes.byteLength; position += window) {
      const piece = bytes.subarray(position, position + window);
      memory.set(piece, input);
      crc = kernel.update(piece.byteLength, crc);
    }
    return ~crc >>> 0;
  };
}
