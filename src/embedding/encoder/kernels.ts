import { decodeBase64 } from "../../base/text.ts";
import { scalarKernels } from "./kernels-scalar.ts";
import type { KernelKind } from "./shape.ts";

/** What sums of a product start with; bits, as in kernels/encoder/gemm. */
export const FROM_BIAS = 1;
export const FROM_C = 2;

/** Numbers of kernels/encoder/rows, activate. */
export const ACTIVATION_KINDS = { gelu: 0, gelu_tanh: 1, relu: 2 } as const;

/**
 * The kernels over one memory: pointers and strides are bytes, widths are values. Their many arguments are those of the
 * compiled functions, which are called as they are.
 */
export interface EncoderKernels {
  gemm(
    a: number,
    lda: number,
    m: number,
    k: number,
    b: number,
    n: number,
    bias: number,
    c: number,
    ldc: number,
    mode: number,
  ): void;
  quantizeRows(a: number, lda: number, m: number, k: number, to: number, scales: number, top: number): void;
  gemmInt8(
    a: number,
    scales: number,
    m: number,
    k: number,
    b: number,
    n: number,
    worth: number,
    bias: number,
    c: number,
    ldc: number,
    mode: number,
  ): void;
  quantizeBytes(
    a: number,
    lda: number,
    first: number,
    m: number,
    k: number,
    to: number,
    table: number,
    outliers: number,
  ): void;
  gemmBytes(
    a: number,
    table: number,
    outliers: number,
    m: number,
    k: number,
    b: number,
    n: number,
    worth: number,
    sums: number,
    bias: number,
    c: number,
    ldc: number,
    mode: number,
  ): void;
  attend(
    qkv: number,
    ldq: number,
    tokens: number,
    heads: number,
    width: number,
    scale: number,
    to: number,
    ldt: number,
    scratch: number,
  ): void;
  packPanel(
    from: number,
    stride: number,
    rows: number,
    k: number,
    depth: number,
    n: number,
    panel: number,
    to: number,
  ): void;
  packPanelInt8(from: number, stride: number, rows: number, k: number, depth: number, panel: number, to: number): void;
  packPanelBytes(
    from: number,
    stride: number,
    rows: number,
    k: number,
    depth: number,
    panel: number,
    to: number,
    sums: number,
  ): void;
  widenHalves(from: number, count: number, to: number): void;
  widenBrains(from: number, count: number, to: number): void;
  addRows(x: number, ldx: number, rows: number, width: number, table: number): void;
  normalizeRows(
    x: number,
    ldx: number,
    rows: number,
    width: number,
    padded: number,
    gain: number,
    shift: number,
    epsilon: number,
  ): void;
  activate(x: number, ldx: number, rows: number, width: number, kind: number): void;
}

/** An encoder's memory; shared where several threads compute in it. */
export type EncoderBuffer = ArrayBuffer | SharedArrayBuffer;

/** Kernels and the memory they work on. */
export interface BoundKernels {
  readonly kind: KernelKind;
  readonly buffer: EncoderBuffer;
  readonly kernels: EncoderKernels;
  /** What another thread needs to work on the same memory; undefined where it is not shared. */
  readonly shared?: SharedKernels | undefined;
}

/** Structured-clonable: the compiled code and the memory, for another thread. */
export interface SharedKernels {
  readonly module: WebAssembly.Module;
  readonly memory: WebAssembly.Memory;
}

export interface KernelOptions {
  /** "auto" takes the fastest that runs here. */
  readonly kind: KernelKind | "auto";
  /** Of the memory, once it is known what runs here. */
  readonly byteLengthFor: (kind: KernelKind) => number;
  /** "shared" where other threads are to compute in the same memory; private where the host has no such memory. */
  readonly memory: "private" | "shared";
}

const PAGE_BYTES = 0x1_0000;

/**
 * Compiles the kernels and makes their memory, all zeros. A kind that was asked for by name and does not run here
 * rejects; "auto" goes on to the next.
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

/** Kernels of another thread's memory. */
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
  // It never grows, so views of it stay valid.
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

/** Pages have shared memory only when they are isolated from other origins. */
function canShare(): boolean {
  const { crossOriginIsolated } = globalThis as { readonly crossOriginIsolated?: boolean };
  return typeof SharedArrayBuffer === "function" && crossOriginIsolated !== false;
}
