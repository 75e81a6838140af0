import type { Bytes } from "../../base/bytes.ts";
import { WASM } from "../../kernels/generated/quant.ts";
import { type KernelExports, loadKernel } from "../../kernels/load.ts";
import { countBadBlocks, QUANT_BYTES, QUANT_ELEMENTS, type Quantizer, type QuantType } from "./quantizer.ts";

type Work = (count: number) => void;

interface QuantExports extends KernelExports, Record<`encode${QuantType}` | `decode${QuantType}`, Work> {
  maxBlocks(): number;
  floats(): number;
  blocks(): number;
  takeOverflows(): number;
  room(): number;
  roomBytes(): number;
  readFrom(at: number): void;
}

/** The kernel, fed a few hundred blocks at a time: both buffers stay in the first-level cache's reach. */
export async function loadQuantizerWasm(): Promise<Quantizer> {
  const kernel = await loadKernel<QuantExports>(WASM);
  const maxBlocks = kernel.maxBlocks();
  const floats = new Float32Array(kernel.memory.buffer, kernel.floats(), maxBlocks * QUANT_ELEMENTS);
  const blocks = new Uint8Array(kernel.memory.buffer, kernel.blocks());
  let room: Bytes | undefined = new Uint8Array(kernel.memory.buffer as ArrayBuffer, kernel.room(), kernel.roomBytes());
  return {
    takeRoom(byteLength: number): Bytes | undefined {
      if (room === undefined || byteLength > room.byteLength) return undefined;
      const taken = room.subarray(0, byteLength);
      room = undefined;
      return taken;
    },
    giveRoom(): void {
      room = new Uint8Array(kernel.memory.buffer as ArrayBuffer, kernel.room(), kernel.roomBytes());
    },
    encode(type: QuantType, values: Float32Array<ArrayBuffer>, into: Bytes): number {
      const work = kernel[`encode${type}`];
      const blockBytes = QUANT_BYTES[type];
      const total = values.length / QUANT_ELEMENTS;
      const isStaged = values.buffer === kernel.memory.buffer;
      if (!isStaged) kernel.readFrom(floats.byteOffset);
      for (let done = 0; done < total; done += maxBlocks) {
        const count = Math.min(maxBlocks, total - done);
        if (isStaged) kernel.readFrom(values.byteOffset + done * QUANT_ELEMENTS * Float32Array.BYTES_PER_ELEMENT);
        else floats.set(values.subarray(done * QUANT_ELEMENTS, (done + count) * QUANT_ELEMENTS));
        work(count);
        into.set(blocks.subarray(0, count * blockBytes), done * blockBytes);
      }
      // Few blocks, or none: only then is it worth looking which.
      return kernel.takeOverflows() === 0 ? 0 : countBadBlocks(type, into, total);
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
