import type { Bytes } from "./bytes.ts";

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const encoder = new TextEncoder();

export function encodeUtf8(text: string): Bytes {
  return encoder.encode(text);
}

/** Strict: undefined where the bytes are not UTF-8. A byte order mark is kept, as it is part of the text. */
export function decodeUtf8(bytes: Bytes): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined; // the decoder's TypeError says nothing a caller could use
  }
}

/** Offset of the first byte that is not part of well-formed UTF-8, or -1. */
export function findInvalidUtf8(bytes: Bytes): number {
  let low = 0;
  let high = bytes.byteLength;
  if (decodeUtf8(bytes) !== undefined) return -1;
  // Find the longest prefix that decodes when a cut-off tail is forgiven; halving keeps this cheap on 100 MB headers.
  const prefixIsFine = (length: number): boolean => {
    try {
      new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(0, length), { stream: true });
      return true;
    } catch {
      return false;
    }
  };
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (prefixIsFine(middle)) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** For showing names of unknown origin on a terminal: control characters become visible escapes. */
export function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are exactly what is looked for
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}
