import type { Bytes } from "../../base/bytes.ts";
import { ascii, bytes, type Decoded, type Encodable, reserved, struct, u8, u32 } from "../../struct/layout.ts";
import { V2_MAGIC } from "../legacy-vaults.ts";

export const HEADER_BYTES = 512;
/** HMAC-SHA512 of the header, at its end. */
export const MAC_OFFSET = 448;
export const MAC_BYTES = 64;
/** Header flag: every chunk is encrypted twice. No other flag was ever given a meaning by a program. */
export const CASCADE_FLAG = 1;
/** Byte 10: 2 for vaults whose chunks are bound to their index alone, 3 for those bound to their file too. */
export const REVISIONS: readonly number[] = [2, 3];
/** What creation accepts; other lengths are no chunk size of any program. */
export const MIN_CHUNK_BYTES = 4096;
export const MAX_CHUNK_BYTES = 16 << 20;
/** The manifest is preceded by its length, and every chunk by its own. */
export const PREFIX_BYTES = 4;

/** The header, one line per row of docs/formats/aerovault2.md#header. */
export const vault2Header = struct("AeroVault v2 header", HEADER_BYTES, {
  magic: ascii(0, 10).is(V2_MAGIC),
  revision: u8(10),
  flags: u8(11),
  salt: bytes(12, 32),
  wrappedMasterKey: bytes(44, 40),
  wrappedMacKey: bytes(84, 40),
  chunkSize: u32(124),
  reserved: reserved(128, 320),
  mac: reserved(MAC_OFFSET, MAC_BYTES),
});

export type Vault2Header = Decoded<typeof vault2Header>;
export type Vault2HeaderValues = Encodable<(typeof vault2Header)["fields"]>;

/** What the MAC is computed over: the header with its field zeroed. A copy. */
export function withoutMac(header: Bytes): Bytes {
  const copy = header.slice(0, HEADER_BYTES);
  copy.fill(0, MAC_OFFSET);
  return copy;
}
