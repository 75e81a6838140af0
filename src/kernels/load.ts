import { decodeBase64 } from "../base/text.ts";

/** Named without its namespace: programs without the DOM's types have none, and read these declarations too. */
export type KernelMemory = typeof globalThis extends {
  readonly WebAssembly: { readonly Memory: { readonly prototype: infer T } };
}
  ? T
  : unknown;

export type KernelModule = typeof globalThis extends {
  readonly WebAssembly: { readonly Module: { readonly prototype: infer T } };
}
  ? T
  : unknown;

/** What every kernel exports in addition to its own functions. */
export interface KernelExports {
  readonly memory: KernelMemory;
  /** Length the memory must have before the first call. */
  end(): number;
}

const PAGE_BYTES = 0x1_0000;

/** The first of several builds of one kernel that this host can compile. Loads each build only when it is tried. */
export async function loadFirstKernel<E extends KernelExports>(builds: readonly (() => Promise<string>)[]): Promise<E> {
  let cause: unknown;
  for (const build of builds) {
    try {
      return await loadKernel<E>(await build());
    } catch (error) {
      cause = error; // no relaxed SIMD here: the next build needs less
    }
  }
  throw cause;
}

/**
 * Compiles a kernel and grows its memory to the length it needs. The memory never grows again, so views of it stay
 * valid. Rejects if WebAssembly or its SIMD is missing, or if a page's policy forbids compiling. Asynchronous, because
 * the main thread of a browser refuses to compile more than 4 KB synchronously.
 */
export async function loadKernel<E extends KernelExports>(wasm: string): Promise<E> {
  const bytes = decodeBase64(wasm) ?? new Uint8Array(0);
  const { instance } = await WebAssembly.instantiate(bytes);
  const exports = instance.exports as unknown as E;
  const missing = exports.end() - exports.memory.buffer.byteLength;
  if (missing > 0) exports.memory.grow(Math.ceil(missing / PAGE_BYTES));
  return exports;
}
