import type { Bytes } from "../../base/bytes.ts";
import { decodeBase64 } from "../../base/text.ts";
import { WASM } from "../../kernels/generated/zstd.ts";
import type { ZstdCodec } from "./zstd.ts";

/** Levels above 6 cost three times as much as in machine code. */
const MAX_LEVEL = 6;

/** WebAssembly memory never shrinks, so an instance that grew beyond this is left to the garbage collector. */
const KEPT_BYTES = 64 << 20;

const PAGE_BYTES = 0x1_0000;

/** The exports of @foxglove/wasm-zstd 1.0.1, under the short names that its linker gave them. */
interface Exports {
  readonly c: WebAssembly.Memory;
  /** Runs static constructors; once. */
  d(): void;
  /** malloc: 0 if there is no memory. */
  f(byteLength: number): number;
  /** free */
  g(pointer: number): void;
  /** ZSTD_compressBound */
  h(byteLength: number): number;
  /** Compresses at a level; -1 for any error. */
  i(to: number, capacity: number, from: number, byteLength: number, level: number): number;
  /** Decompresses; -1 for any error. */
  j(to: number, capacity: number, from: number, byteLength: number): number;
}

/** libzstd compiled to WebAssembly. Rejects if WebAssembly is missing or a page's policy forbids compiling. */
export async function loadZstdWasm(): Promise<ZstdCodec> {
  const module = await WebAssembly.compile(decodeBase64(WASM) ?? new Uint8Array(0));
  let kept: Exports | undefined;
  const run = async (bytes: Bytes, capacity: (it: Exports) => number, call: Call): Promise<Bytes> => {
    const exports = kept ?? (await instantiate(module));
    kept = undefined; // if a call fails, its memory may be corrupt
    const output = runOnHeap(exports, bytes, { capacity: capacity(exports), call });
    if (exports.c.buffer.byteLength <= KEPT_BYTES) kept = exports;
    return output;
  };
  return {
    compress: (bytes, level) =>
      run(
        bytes,
        (it) => it.h(bytes.byteLength),
        (it, to, capacity, from) => it.i(to, capacity, from, bytes.byteLength, Math.min(level, MAX_LEVEL)),
      ),
    decompress: (bytes, { frame, maxBytes }) =>
      run(
        bytes,
        () => Math.min(maxBytes, frame.maxContentBytes),
        (it, to, capacity, from) => it.j(to, capacity, from, bytes.byteLength),
      ),
  };
}

type Call = (it: Exports, to: number, capacity: number, from: number) => number;

async function instantiate(module: WebAssembly.Module): Promise<Exports> {
  const memory = (): WebAssembly.Memory => exports.c;
  const env = {
    /** emscripten_resize_heap: 1 if the heap has `byteLength` bytes now. */
    a: (byteLength: number): number => {
      const missing = (byteLength >>> 0) - memory().buffer.byteLength;
      try {
        if (missing > 0) memory().grow(Math.ceil(missing / PAGE_BYTES));
        return 1;
      } catch {
        return 0; // malloc reports it
      }
    },
    /** emscripten_memcpy_big */
    b: (to: number, from: number, byteLength: number): void => {
      new Uint8Array(memory().buffer).copyWithin(to >>> 0, from >>> 0, (from >>> 0) + (byteLength >>> 0));
    },
  };
  const instance = await WebAssembly.instantiate(module, { a: env });
  const exports = instance.exports as unknown as Exports;
  exports.d();
  return exports;
}

function runOnHeap(it: Exports, bytes: Bytes, options: { capacity: number; call: Call }): Bytes {
  const capacity = Math.max(options.capacity, 1);
  const from = allocate(it, Math.max(bytes.byteLength, 1));
  const to = allocate(it, capacity);
  // Make the view after the last allocation: growing detaches every earlier view.
  new Uint8Array(it.c.buffer).set(bytes, from);
  const byteLength = options.call(it, to, capacity, from);
  if (byteLength < 0) throw new Error("zstd gave an error");
  const output = new Uint8Array(it.c.buffer).slice(to, to + byteLength) as Bytes;
  it.g(from);
  it.g(to);
  return output;
}

function allocate(it: Exports, byteLength: number): number {
  const pointer = it.f(byteLength) >>> 0;
  if (pointer === 0) throw new Error(`WebAssembly has no ${byteLength} bytes`);
  return pointer;
}
