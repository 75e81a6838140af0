import type { Bytes } from "../../base/bytes.ts";
import type { Location } from "../../base/errors.ts";
import { WASM } from "../../kernels/generated/lz4.ts";
import { type KernelExports, loadKernel } from "../../kernels/load.ts";
import { type Lz4Codec, lz4Error, lz4Javascript } from "./lz4.ts";

interface Lz4Exports extends KernelExports {
  input(): number;
  output(): number;
  maxRaw(): number;
  maxBlock(): number;
  decode(byteLength: number, capacity: number): number;
  encode(byteLength: number): number;
}

/** The codec on our kernel for blocks of up to 64 KiB, as formats write them. Longer ones use plain TypeScript. */
export async function loadLz4Wasm(): Promise<Lz4Codec> {
  const kernel = await loadKernel<Lz4Exports>(WASM);
  const maxRaw = kernel.maxRaw();
  const maxBlock = kernel.maxBlock();
  const input = new Uint8Array(kernel.memory.buffer, kernel.input(), maxBlock);
  const output = new Uint8Array(kernel.memory.buffer, kernel.output(), maxBlock);
  return {
    decode(block: Bytes, into: Bytes, at: Location): void {
      if (block.byteLength > maxBlock || into.byteLength > maxRaw) {
        lz4Javascript.decode(block, into, at);
        return;
      }
      input.set(block);
      const found = kernel.decode(block.byteLength, into.byteLength);
      if (found !== into.byteLength) throw lz4Error(block, into.byteLength, at);
      into.set(output.subarray(0, found));
    },
    encode(bytes: Bytes, into: Bytes): number | undefined {
      if (bytes.byteLength > maxRaw) return lz4Javascript.encode(bytes, into);
      input.set(bytes);
      const byteLength = kernel.encode(bytes.byteLength);
      if (byteLength > into.byteLength) return undefined;
      into.set(output.subarray(0, byteLength));
      return byteLength;
    },
  };
}
