import { expect } from "vitest";
import type { Bytes } from "../../src/base/bytes.ts";
import { checkRange } from "../../src/bytes/extents.ts";
import type { Source } from "../../src/bytes/source.ts";
import { measureProcessorTime } from "../support/processor-time.ts";

/** Processor time: what is bounded takes well below a second; what is not takes minutes. */
const MOST_MS = 8000;
/** No attack here has a file of more than a few megabytes; what it is after would be gigabytes. */
const MOST_BYTES = 96 << 20;

/** Runs an attack and looks at what it cost in time and in buffers. */
export async function bounded<T>(run: () => Promise<T>): Promise<T> {
  const memory = process.memoryUsage().arrayBuffers;
  const { result, milliseconds } = await measureProcessorTime(run);
  expect(milliseconds).toBeLessThan(MOST_MS);
  expect(process.memoryUsage().arrayBuffers - memory).toBeLessThan(MOST_BYTES);
  return result;
}

/** A file of any length that begins with `head` and goes on with zeros; nobody may read much of it. */
export function vastSource(head: Bytes, byteLength: number): Source & { readonly bytesRead: number } {
  let bytesRead = 0;
  return {
    label: "vast",
    byteLength,
    get bytesRead() {
      return bytesRead;
    },
    async read(offset, length, options = {}) {
      checkRange("vast", byteLength, offset, length);
      bytesRead += length;
      if (bytesRead > 1 << 20) throw new Error(`${bytesRead} bytes were read of a file with ${head.byteLength}`);
      const bytes = options.into ?? new Uint8Array(length);
      bytes.fill(0);
      bytes.set(head.subarray(offset, offset + length));
      return bytes;
    },
    stream() {
      throw new Error("the weights were streamed");
    },
    close: () => Promise.resolve(),
  };
}
