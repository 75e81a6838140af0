import { type Bytes, startsWith } from "../../base/bytes.ts";
import type { Format, Head, SniffResult } from "../../model/format.ts";
import { crc32Javascript } from "../../primitives/digest/crc32.ts";
import type { AprLayout } from "./model.ts";

/** What the first bytes say: a layout, a container of the same family without readable tensors, or nothing. */
export type AprKind = AprLayout | "byte-swapped" | "unknown-magic" | "encrypted-container" | "bundle";

const OPEN_BRACE = 0x7b;
/**
 * The 64-byte header has the CRC-32 of its other bytes at this offset, as `header64` in layouts/layout.ts declares. That
 * module is not loaded here, where every file is sniffed.
 */
const HEADER_BYTES = 64;
const HEADER_CRC_OFFSET = 40;
/** RFC 8878, 3.1.1. */
const ZSTD_MAGIC = [0x28, 0xb5, 0x2f, 0xfd] as const;

const ascii = (text: string): readonly number[] => [...text].map((character) => character.charCodeAt(0));
const APR = ascii("APR");
const SWAPPED = ascii("2RPA");
const ENCRYPTED = ascii("ALBR-ENC");
const BUNDLE = ascii("APBUNDLE");

/** Content decides. If a file begins with the letters of the magic and continues differently, its name decides. */
export function sniffApr(head: Head): SniffResult {
  const kind = aprKind(head.bytes);
  if (kind === undefined) return isCutMagic(head) ? "possible" : "no";
  return kind === "unknown-magic" ? "possible" : "yes";
}

/**
 * The layout by its first bytes. Three layouts share the magic "APR2"; two each share "APR\0", "APR1" and "APRN". For
 * the 64-byte layouts the header's CRC is checked first, because a wrapper has its length where they have flags.
 */
export function aprKind(bytes: Bytes): AprKind | undefined {
  if (startsWith(bytes, APR) && bytes.byteLength >= 4) return kindOfMagic(bytes);
  if (startsWith(bytes, SWAPPED)) return "byte-swapped";
  if (startsWith(bytes, ENCRYPTED)) return "encrypted-container";
  if (startsWith(bytes, BUNDLE)) return "bundle";
  return isManifestText(bytes) ? "manifest" : undefined;
}

function kindOfMagic(bytes: Bytes): AprKind {
  switch (bytes[3]) {
    case 0x32: // "APR2"
      if (headerCrc(bytes) === "valid" || metadataAt64(bytes)) return "aprender-2025";
      return isWrapper(bytes) ? "wrapper" : "spec";
    case 0x00: // "APR\0"
      if (headerCrc(bytes) === "valid") return "aprender";
      // realizar leaves the CRC zero. Then the metadata must be at the place where every writer puts it.
      if (headerCrc(bytes) === "zero" && metadataAt64(bytes) && bytes[HEADER_BYTES] === OPEN_BRACE) return "aprender";
      return isWrapper(bytes) ? "wrapper" : "aprender";
    case 0x31: // "APR1"
      return bytes[8] !== OPEN_BRACE && isWhisper(bytes) ? "whisper" : "apr1";
    case 0x4e: // "APRN"
      return bytes[4] === 2 && headerCrc(bytes) === "valid" ? "aprender-2025" : "aprn";
    default:
      return "unknown-magic";
  }
}

/** The CRC-32 of the 64-byte header without the CRC's own four bytes. */
export function headerCrc(bytes: Bytes): "valid" | "zero" | "wrong" {
  if (bytes.byteLength < HEADER_BYTES) return "wrong";
  const stored = u32(bytes, HEADER_CRC_OFFSET);
  const before = crc32Javascript(bytes.subarray(0, HEADER_CRC_OFFSET), 0);
  const crc = crc32Javascript(bytes.subarray(HEADER_CRC_OFFSET + 4, HEADER_BYTES), before);
  if (stored === crc) return "valid";
  return stored === 0 ? "zero" : "wrong";
}

/** metadata_offset of the 64-byte header, a u64: 64 in every file. The specification's layout has a size there. */
function metadataAt64(bytes: Bytes): boolean {
  return bytes.byteLength >= 20 && u32(bytes, 12) === HEADER_BYTES && u32(bytes, 16) === 0;
}

/** The 9-byte wrapper: kind 1 is LZ4, whose payload repeats the length; kind 2 is a zstd frame. */
function isWrapper(bytes: Bytes): boolean {
  if (bytes.byteLength < 13) return false;
  if (bytes[4] === 1) return u32(bytes, 5) === u32(bytes, 9);
  return bytes[4] === 2 && startsWith(bytes, ZSTD_MAGIC, 9);
}

/** whisper.apr has version 1 as a u16, and a 0 or 1 where aprender's JSON begins. */
function isWhisper(bytes: Bytes): boolean {
  return bytes[4] === 1 && bytes[5] === 0 && (bytes[8] === 0 || bytes[8] === 1);
}

/** A manifest is JSON without a header: an object that mentions shards and APR, or maps tensors to shards. */
function isManifestText(bytes: Bytes): boolean {
  const start = bytes.findIndex((byte) => byte !== 0x20 && byte !== 0x09 && byte !== 0x0a && byte !== 0x0d);
  if (start < 0 || bytes[start] !== OPEN_BRACE) return false;
  const text = new TextDecoder("latin1").decode(bytes);
  if (!text.includes('"shards"')) return false;
  if (text.includes('"tensor_shard_map"') || text.includes('"apr_version"')) return true;
  // The reference's own manifest: numbers where the index of SafeTensors shards has file names.
  return text.includes('"shard_count"') && /"weight_map"\s*:\s*\{(\s*\}|[^{}]*?"\s*:\s*[0-9])/.test(text);
}

/** The file is shorter than a magic, but its bytes are the beginning of one. */
function isCutMagic({ bytes }: Head): boolean {
  return bytes.byteLength > 0 && bytes.byteLength < 4 && startsWith(Uint8Array.from(APR), [...bytes]);
}

function u32(bytes: Bytes, offset: number): number {
  return new DataView(bytes.buffer, bytes.byteOffset).getUint32(offset, true);
}

/**
 * The opening read. It holds header, metadata and index of a model without a vocabulary, and costs little if there is
 * more. Metadata comes first (spec, "Streaming"): a caller that wants only metadata should not read more.
 */
export const OPENING_BYTES = 64 << 10;

/** The descriptor of APR in all its layouts; it loads the other entry files. */
export const apr: Format = {
  id: "apr",
  name: "APR",
  kind: "model",
  extensions: [".apr"],
  // The manifest of a set has the same extension as its shards.
  index: { extensions: [".apr"], parts: "same stem" },
  openingBytes: OPENING_BYTES,
  sniff: sniffApr,
  read: async () => (await import("./read.ts")).reader,
  verify: async () => (await import("./verify.ts")).verifier,
  write: async () => (await import("./write.ts")).writer,
};
