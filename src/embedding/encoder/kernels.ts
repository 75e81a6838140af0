import { decodeBase64 } from "../../base/text.ts";
import type { KernelMemory, KernelModule } from "../../kernels/load.ts";
import { type EncoderKernels, scalarKernels } from "./kernels-scalar.ts";
import type { KernelKind } from "./shape.ts";

/** What the sums of a product start with: bits, as in kernels/encoder/gemm. */
export const FROM_BIAS = 1;
export const FROM_C = 2;

/** Numbers of kernels/encoder/rows, activate. */
export const ACTIVATION_KINDS = { gelu: 0, gelu_tanh: 1, relu: 2 } as const;

/** An encoder's memory; shared if several threads compute in it. */
export type EncoderBuffer = ArrayBuffer | SharedArrayBuffer;

/** Kernels and the memory they work on. */
export interface BoundKernels {
  readonly kind: KernelKind;
  readonly buffer: EncoderBuffer;
  readonly kernels: EncoderKernels;
  /** What another thread needs to work on the same memory; undefined if it is not shared. */
  readonly shared?: SharedKernels | undefined;
}

/** Structured-clonable: the compiled code and the memory, for another thread. */
export interface SharedKernels {
  readonly module: KernelModule;
  readonly memory: KernelMemory;
}

export interface KernelOptions {
  /** "auto" takes the fastest that runs here. */
  readonly kind: KernelKind | "auto";
  /** The length of the memory, for the kind that runs here. */
  readonly byteLengthFor: (kind: KernelKind) => number;
  /** "shared" if other threads will compute in the same memory. It stays private if the host has no shared memory. */
  readonly memory: "private" | "shared";
}

const PAGE_BYTES = 0x1_0000;

/**
 * Compiles the kernels and makes their memory, all zeros. Rejects if the requested kind does not run here; "auto" tries
 * the next one.
 */
export async function loadEncoderKernels({ kind, byteLengthFor, memory }: KernelOptions): Promise<BoundKernels> {
  const isShared = memory === "shared" && canShare();
  if (kind === "scalar") return scalarIn(byteLengthFor(kind));
  if (kind !== "auto") return compiled(kind, byteLengthFor(kind), isShared);
  for (const candidate of ["relaxed", "simd"] as const) {
    const module = await compile(candidate, isShared).catch(() => undefined);
    if (module !== undefined) return instantiated(module, candidate, byteLengthFor(candidate), isShared);
  }
  return scalarIn(byteLengthFor("scalar"));
}

/** Kernels on another thread's memory. */
export async function bindShared(kind: KernelKind, { module, memory }: SharedKernels): Promise<BoundKernels> {
  const instance = await WebAssembly.instantiate(module, { env: { memory } });
  const kernels = instance.exports as unknown as EncoderKernels;
  return { kind, buffer: memory.buffer, kernels, shared: { module, memory } };
}

function scalarIn(byteLength: number): BoundKernels {
  const buffer = new ArrayBuffer(byteLength);
  return { kind: "scalar", buffer, kernels: scalarKernels(buffer) };
}

async function compiled(kind: "relaxed" | "simd", byteLength: number, isShared: boolean): Promise<BoundKernels> {
  return instantiated(await compile(kind, isShared), kind, byteLength, isShared);
}

async function instantiated(
  module: WebAssembly.Module,
  kind: KernelKind,
  byteLength: number,
  isShared: boolean,
): Promise<BoundKernels> {
  const pages = Math.ceil(byteLength / PAGE_BYTES);
  // The memory never grows, so views of it stay valid.
  const memory = new WebAssembly.Memory({ initial: pages, maximum: pages, ...(isShared ? { shared: true } : {}) });
  const bound = await bindShared(kind, { module, memory });
  return isShared ? bound : { ...bound, shared: undefined };
}

async function compile(kind: "relaxed" | "simd", isShared: boolean): Promise<WebAssembly.Module> {
  const { WASM } = await moduleOf(kind, isShared);
  return WebAssembly.compile(decodeBase64(WASM) ?? new Uint8Array(0));
}

/** A module declares whether its memory is shared, so there are four. */
function moduleOf(kind: "relaxed" | "simd", isShared: boolean): Promise<{ readonly WASM: string }> {
  if (kind === "relaxed") {
    return isShared
      ? import("../../kernels/generated/encoder-relaxed-shared.ts")
      : import("../../kernels/generated/encoder-relaxed.ts");
  }
  return isShared ? import("../../kernels/generated/encoder-shared.ts") : import("../../kernels/generated/encoder.ts");
}

/** Pages have shared memory only if they are isolated from other origins. */
function canShare(): boolean {
  const { crossOriginIsolated } = globalThis as { readonly crossOriginIsolated?: boolean };
  return typeof SharedArrayBuffer === "function" && crossOriginIsolated !== false;
}
