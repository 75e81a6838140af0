import type { Bytes } from "../../base/bytes.ts";

/** FNV-1a of 32 bits: the offset basis and prime of its authors' page. */
const BASIS = 0x811c9dc5;
const PRIME = 0x01000193;

/** FNV-1a over the UTF-8 bytes of a name; the field has 32 bits, so this is the 32-bit variant. */
export function hashName(bytes: Bytes): number {
  let hash = BASIS;
  for (const byte of bytes) hash = Math.imul(hash ^ byte, PRIME);
  return hash >>> 0;
}
