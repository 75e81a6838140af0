import type { Bytes } from "../../base/bytes.ts";
import { type KernelExports, loadFirstKernel } from "../../kernels/load.ts";
import { type Combine, type CombineRequest, multiplyGf256 } from "./gf256.ts";

/** What src/kernels/gf256.as.ts exports. */
interface Gf256Kernel extends KernelExports {
  tables(): number;
  input(): number;
  outputs(): number;
  windowBytes(): number;
  maxOutputs(): number;
  multiplyAdd(byteLength: number, count: number): void;
}

/** Two lookups of sixteen products each: for the low and the high four bits. */
const LOOKUP_BYTES = 32;

/** In WebAssembly SIMD. Every call copies its inputs in and its results out, so all codes share one kernel. */
export async function loadCombineWasm(): Promise<Combine> {
  const kernel = await loadFirstKernel<Gf256Kernel>([
    async () => (await import("../../kernels/generated/gf256-relaxed.ts")).WASM,
    async () => (await import("../../kernels/generated/gf256.ts")).WASM,
  ]);
  const maxOutputs = kernel.maxOutputs();
  return (request) => {
    for (let first = 0; first < request.outputs.length; first += maxOutputs) {
      const rows = request.rows.slice(first, first + maxOutputs);
      const outputs = request.outputs.slice(first, first + maxOutputs);
      combineSome(kernel, { ...request, rows, outputs });
    }
  };
}

function combineSome(kernel: Gf256Kernel, { rows, inputs, outputs, mode }: CombineRequest): void {
  const memory: Bytes = new Uint8Array(kernel.memory.buffer as ArrayBuffer);
  const window = kernel.windowBytes();
  const lookups = inputs.map((_, i) => lookupsOf(rows.map((row) => row[i] ?? 0)));
  const byteLength = outputs[0]?.byteLength ?? 0;
  const room = outputs.map((_, o) => kernel.outputs() + window * o);
  const input = kernel.input();
  for (let at = 0; at < byteLength; at += window) {
    const end = Math.min(at + window, byteLength);
    outputs.forEach((output, o) => {
      const place = room[o] as number;
      if (mode === "add") memory.set(output.subarray(at, end), place);
      else memory.fill(0, place, place + window);
    });
    inputs.forEach((shard, i) => {
      if (shard === undefined) return;
      memory.set(lookups[i] as Bytes, kernel.tables());
      memory.set(shard.subarray(at, end), input);
      kernel.multiplyAdd(end - at, outputs.length);
    });
    outputs.forEach((output, o) => {
      const place = room[o] as number;
      output.set(memory.subarray(place, place + end - at), at);
    });
  }
}

function lookupsOf(factors: readonly number[]): Bytes {
  const lookups = new Uint8Array(LOOKUP_BYTES * factors.length);
  factors.forEach((factor, o) => {
    for (let n = 0; n < 16; n++) {
      lookups[LOOKUP_BYTES * o + n] = multiplyGf256(n, factor);
      lookups[LOOKUP_BYTES * o + 16 + n] = multiplyGf256(n << 4, factor);
    }
  });
  return lookups;
}
