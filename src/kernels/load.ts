import { decodeBase64 } from "../base/text.ts";

/** What every kernel exports beside its own functions. */
export interface KernelExports {
  readonly memory: WebAssembly.Memory;
  /** Length the memory must have before the first call. */
  end(): number;
}

const PAGE_BYTES = 0x1_0000;

/** The first of several builds of one kernel that this host can compile; tried in turn, each loaded only when it is. */
export async function loadFirstKernel<E extends KernelExports>(builds: readonly (() => Promise<string>)[]): Promise<E> {
  let cause: unknown;
  for (const build of builds) {
    try {
      return await loadKernel<E>(await build());
    } catch (error) {
      cause = error; // no relaxed SIMD here: the next build asks for less
    }
  }
  throw cause;
}

/**
 * Compiles a kernel and grows its memory to what it asks for; the memory never grows again, so views of it stay valid.
 * Rejects where WebAssembly or its SIMD is missing, or where a page's policy forbids compiling. Asynchronous, because
 * the main thread of a browser refuses to compile more than 4 KB at once.
 */
export async function loadKernel<E extends KernelExports>(wasm: string): Promise<E> {
  const bytes = decodeBase64(wasm) ?? new Uint8Array(0);
  const { instance } = await WebAssembly.instantiate(bytes);
  const exports = instance.exports as unknown as E;
  const missing = exports.end() - exports.memory.buffer.byteLength;
  if (missing > 0) exports.memory.grow(Math.ceil(missing / PAGE_BYTES));
  return exports;
}
