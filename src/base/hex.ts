import type { Bytes } from "./bytes.ts";

const PAIRS: readonly string[] = Array.from({ length: 256 }, (_, value) => value.toString(16).padStart(2, "0"));

export function encodeHex(bytes: Bytes): string {
  let text = "";
  for (const value of bytes) text += PAIRS[value];
  return text;
}

/** Undefined where the text is not an even number of hex digits. */
export function decodeHex(text: string): Bytes | undefined {
  if (text.length % 2 !== 0 || !/^[0-9a-fA-F]*$/.test(text)) return undefined;
  const bytes = new Uint8Array(text.length / 2);
  for (let i = 0; i < bytes.length; i++) bytes[i] = Number.parseInt(text.slice(2 * i, 2 * i + 2), 16);
  return bytes;
}
