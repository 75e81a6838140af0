import { setFlagsFromString } from "node:v8";

/** A module with one function that is f32x4.relaxed_madd. */
const PROBE = Uint8Array.of(
  ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0], // magic, version
  ...[1, 8, 1, 0x60, 3, 0x7b, 0x7b, 0x7b, 1, 0x7b], // type: three v128 to one
  ...[3, 2, 1, 0], // one function of that type
  ...[10, 13, 1, 11, 0, 0x20, 0, 0x20, 1, 0x20, 2, 0xfd, 0x85, 2, 0x0b], // its code
);

/**
 * Lets V8 compile relaxed SIMD. Node 20 knows it behind a flag that may be set while it runs; later ones have it anyway,
 * and refuse flags, so none is set where it is not needed.
 */
export function enableRelaxedSimd(): void {
  if (WebAssembly.validate(PROBE)) return;
  try {
    setFlagsFromString("--experimental-wasm-relaxed-simd");
  } catch {
    // Without it the plain kernel is taken.
  }
}
