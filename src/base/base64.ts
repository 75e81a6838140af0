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

/** base64url without padding (RFC 4648 §5). */
export function encodeBase64Url(bytes: Bytes): string {
  return encodeBase64(bytes).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

/** Undefined where the text is not base64url without padding, in its one spelling: unused bits must be zero. */
export function decodeBase64Url(text: string): Bytes | undefined {
  if (!/^[\w-]*$/.test(text) || text.length % 4 === 1) return undefined;
  const bytes = decodeBase64(text.replaceAll("-", "+").replaceAll("_", "/"));
  if (bytes === undefined) return undefined;
  const last = text.slice(text.length - (text.length % 4));
  return encodeBase64Url(bytes.subarray(bytes.byteLength - (bytes.byteLength % 3))) === last ? bytes : undefined;
}
