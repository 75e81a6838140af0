import type { Bytes } from "../base/bytes.ts";
import type { TareError } from "../base/errors.ts";
import type { Source } from "./source.ts";

/** Bytes that the index lists but nobody can have: listing works, reading says why not. */
export function failingSource(label: string, byteLength: number, error: TareError): Source {
  return {
    label,
    byteLength,
    read: () => Promise.reject(error),
    stream: () => ({
      [Symbol.asyncIterator]: () => ({ next: (): Promise<IteratorResult<Bytes>> => Promise.reject(error) }),
    }),
    close: () => Promise.resolve(),
  };
}
