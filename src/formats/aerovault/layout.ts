import type { Bytes } from "../../base/bytes.ts";
import {
  ascii,
  bytes,
  type Decoded,
  type Encodable,
  reserved,
  struct,
  u8,
  u16,
  u32,
  u64,
} from "../../struct/layout.ts";
import { HEADER_BYTES } from "./index.ts";

/** The first ten bytes of every v3 vault; the eleventh is the major version. */
export const VAULT_MAGIC = "AEROVAULT3";
/** The only major version of this layout; parity does not change it. */
export const FORMAT_MAJOR = 3;
export { HEADER_BYTES };
/** The only wrapper header version. */
export const WRAPPER_HEADER_VERSION = 1;
/** HMAC-SHA512 of the header, at its end. */
export const MAC_OFFSET = 960;
export const MAC_BYTES = 64;
/** Header flag: nothing is encrypted (the plaintext lane, ".aerovz"). */
export const PLAINTEXT_FLAG = 1;
/** A u64 length precedes every stored block. */
export const PREFIX_BYTES = 8;

/**
 * The header, one line per row of docs/formats/aerovault.md#header. Version, flags and reserved bytes are not fixed
 * here: other values are unsupported, not malformed, and `readHeader` reports them with a better message.
 */
export const vaultHeader = struct("AeroVault header", HEADER_BYTES, {
  magic: ascii(0, 10).is(VAULT_MAGIC),
  formatMajor: u8(10).or(FORMAT_MAJOR),
  flags: u8(11),
  salt: bytes(12, 32),
  wrappedMasterKey: bytes(44, 40),
  wrappedMacKey: bytes(84, 40),
  headerLength: u32(124).is(HEADER_BYTES),
  dataOffset: u64(128).or(HEADER_BYTES),
  dataLength: u64(136),
  manifestOffset: u64(144),
  manifestLength: u64(152),
  extensionDirectoryOffset: u64(160),
  extensionDirectoryLength: u64(168),
  extensionPayloadOffset: u64(176),
  extensionPayloadLength: u64(184),
  wrapperHeaderVersion: u16(192).or(WRAPPER_HEADER_VERSION),
  reserved: reserved(194, 766),
  mac: reserved(MAC_OFFSET, MAC_BYTES),
});

export type VaultHeader = Decoded<typeof vaultHeader>;
/** The input for a header; fields with only one legal value may be left out. */
export type HeaderValues = Encodable<(typeof vaultHeader)["fields"]>;

/** A copy of the header with a zeroed MAC field, over which the MAC is computed. */
export function withoutMac(header: Bytes): Bytes {
  const copy = header.slice(0, HEADER_BYTES);
  copy.fill(0, MAC_OFFSET, MAC_OFFSET + MAC_BYTES);
  return copy;
}

/** A copy of the header with its MAC. */
export function withMac(header: Bytes, mac: Bytes): Bytes {
  const copy = header.slice(0, HEADER_BYTES);
  copy.set(mac, MAC_OFFSET);
  return copy;
}
