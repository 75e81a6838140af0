import type { Bytes } from "./bytes.ts";

/** Large inputs go through btoa in pieces: an argument list has a length limit. */
const PIECE = 0x8000 - (0x8000 % 3);

export function encodeBase64(bytes: Bytes): string {
  let text = "";
  for (let i = 0; i < bytes.byteLength; i += PIECE) {
    text += btoa(String.fromCharCode(...bytes.subarray(i, i + PIECE)));
  }
  return text;
}

/** Undefined where the text is not base64. */
export function decodeBase64(text: string): Bytes | undefined {
  let binary: string;
  try {
    binary = atob(text);
  } catch {
    return undefined; // a DOMException that names no position
  }
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}
