import type { Bytes } from "../../../base/bytes.ts";
import { crc32Javascript } from "../../../primitives/digest/crc32.ts";
import { CRC_BYTES, HEADER_CRC_OFFSET, header64 } from "./layout.ts";

/** The CRC-32 of a 64-byte header without the four bytes where it stands itself. */
export function headerCrcOf(header: Bytes): number {
  const before = crc32Javascript(header.subarray(0, HEADER_CRC_OFFSET), 0);
  return crc32Javascript(header.subarray(HEADER_CRC_OFFSET + CRC_BYTES, header64.byteLength), before);
}
