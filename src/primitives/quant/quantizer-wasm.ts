import type { Bytes } from "../../base/bytes.ts";
import { WASM } from "../../kernels/generated/quant.ts";
import { type KernelExports, loadKernel } from "../../kernels/load.ts";
import { findBadBlocks, QUANT_BYTES, QUANT_ELEMENTS, type Quantizer, type QuantType } from "./quantizer.ts";

type Work = (count: number) => void;

interface QuantExports extends KernelExports, Record<`encode${QuantType}` | `decode${QuantType}`, Work> {
  maxBlocks(): number;
  floats(): number;
  blocks(): number;
  takeOverflows(): number;
}

/** The kernel, with a few hundred blocks at a time, so that both buffers stay near the first-level cache. */
export async function loadQuantizerWasm(): Promise<Quantizer> {
  const kernel = await loadKernel<QuantExports>(WASM);
  const maxBlocks = kernel.maxBlocks();
  const floats = new Float32Array(kernel.memory.buffer, kernel.floats(), maxBlocks * QUANT_ELEMENTS);
  const blocks = new Uint8Array(kernel.memory.buffer, kernel.blocks());
  return {
    encode(type: QuantType, values: Float32Array<ArrayBuffer>, into: Bytes): number {
      const work = kernel[`encode${type}`];
      const blockBytes = QUANT_BYTES[type];
      const total = values.length / QUANT_ELEMENTS;
      for (let done = 0; done < total; done += maxBlocks) {
        const count = Math.min(maxBlocks, total - done);
        floats.set(values.subarray(done * QUANT_ELEMENTS, (done + count) * QUANT_ELEMENTS));
        work(count);
        into.set(blocks.subarray(0, count * blockBytes), done * blockBytes);
      }
      // Look for bad blocks only if the kernel saw an overflow or a NaN.
      return kernel.takeOverflows() === 0 ? 0 : findBadBlocks(type, values, into).length;
    },
    decode(type: QuantType, encoded: Bytes, into: Float32Array<ArrayBuffer>): void {
      const work = kernel[`decode${type}`];
      const blockBytes = QUANT_BYTES[type];
      const total = into.length / QUANT_ELEMENTS;
      for (let done = 0; done < total; done += maxBlocks) {
        const count = Math.min(maxBlocks, total - done);
        blocks.set(encoded.subarray(done * blockBytes, (done + count) * blockBytes));
        work(count);
        into.set(floats.subarray(0, count * QUANT_ELEMENTS), done * QUANT_ELEMENTS);
      }
    },
  };
}
