import { expect } from "vitest";

/**
 * Compares typed arrays by their bytes. Vitest goes through them element by element, which takes a second for 200 000 of
 * them; that was a large part of what the tests took.
 *
 * Answers only what it knows for sure, and leaves the rest to Vitest: a Buffer is no Uint8Array, and floats whose
 * bytes differ are equal if they are the same numbers (NaN has many bits).
 */
function equalArrays(a: unknown, b: unknown): boolean | undefined {
  if (!isTypedArray(a) || !isTypedArray(b)) return undefined;
  if (Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return undefined;
  if (Buffer.compare(bytesOf(a), bytesOf(b)) === 0) return true;
  return a instanceof Uint8Array ? false : undefined;
}

function isTypedArray(value: unknown): value is ArrayBufferView {
  return ArrayBuffer.isView(value) && !(value instanceof DataView);
}

function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** Files share a process and its list of comparisons; this one goes in once. */
const ADDED = Symbol.for("tare.test.byte-equality");
const shared = globalThis as { [ADDED]?: true };
if (shared[ADDED] === undefined) {
  shared[ADDED] = true;
  expect.addEqualityTesters([equalArrays]);
}
