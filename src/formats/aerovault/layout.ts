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

/** The first ten bytes of every v3 vault; the eleventh is the major version. */
export const VAULT_MAGIC = "AEROVAULT3";
/** The only major version of this layout; parity does not change it. */
export const FORMAT_MAJOR = 3;
/** Where the data section begins, in every vault. */
export const HEADER_BYTES = 1024;
/** The only wrapper header version there is. */
export const WRAPPER_HEADER_VERSION = 1;
/** HMAC-SHA512 of the header, at its end. */
export const MAC_OFFSET = 960;
export const MAC_BYTES = 64;
/** Header flag: nothing is encrypted (the plaintext lane, ".aerovz"). */
export const PLAINTEXT_FLAG = 1;
/** Every stored block is preceded by its length as u64. */
export const PREFIX_BYTES = 8;

/**
 * The header, one line per row of docs/formats/aerovault.md#header. Version, flags and reserved bytes are not pinned here:
 * other values are unsupported, not malformed, and `readHeader` says so in better words.
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
/** What a header is made from; everything with one legal value may be left out. */
export type HeaderValues = Encodable<(typeof vaultHeader)["fields"]>;

/** The header's bytes with the field of the MAC zeroed: what the MAC is computed over. A copy. */
export function withoutMac(header: Bytes): Bytes {
  const copy = header.slice(0, HEADER_BYTES);
  copy.fill(0, MAC_OFFSET, MAC_OFFSET + MAC_BYTES);
  return copy;
}

/** A header with its MAC in place. A copy. */
export function withMac(header: Bytes, mac: Bytes): Bytes {
  const copy = header.slice(0, HEADER_BYTES);
  copy.set(mac, MAC_OFFSET);
  return copy;
}
