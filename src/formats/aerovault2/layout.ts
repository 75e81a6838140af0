import type { Bytes } from "../../base/bytes.ts";
import { ascii, bytes, type Decoded, type Encodable, reserved, struct, u8, u32 } from "../../struct/layout.ts";
import { V2_MAGIC } from "../aerovault/index.ts";

export const HEADER_BYTES = 512;
/** HMAC-SHA512 of the header, at its end. */
export const MAC_OFFSET = 448;
export const MAC_BYTES = 64;
/** Header flag: every chunk is encrypted twice. No program has ever used another flag. */
export const CASCADE_FLAG = 1;
/** Byte 10: 2 for vaults whose chunks are bound only to their index, 3 if they are also bound to their file. */
export const REVISIONS: readonly number[] = [2, 3];
/** What creation accepts; no program uses other chunk sizes. */
export const MIN_CHUNK_BYTES = 4096;
export const MAX_CHUNK_BYTES = 16 << 20;
/** A length comes before the manifest and before every chunk. */
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

/** The input of the MAC: a copy of the header with the MAC field zeroed. */
export function withoutMac(header: Bytes): Bytes {
  const copy = header.slice(0, HEADER_BYTES);
  copy.fill(0, MAC_OFFSET);
  return copy;
}
