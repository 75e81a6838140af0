import { ascii, bytes, struct, u8, u32, u64 } from "../../struct/layout.ts";

export const SIDECAR_MAGIC = "AEROCORR";
/** The version that we write; version 1 is only read. */
export const SIDECAR_VERSION = 2;
/** The suffix that a sidecar's name adds to the name of its file. */
export const SIDECAR_SUFFIX = ".aerocorrect";

/** The bytes that both versions begin with. */
export const sidecarMagic = struct("aerocorrect magic", 9, {
  magic: ascii(0, 8).is(SIDECAR_MAGIC),
  version: u8(8),
});

/** One line per row of docs/formats/aerocorrect.md#front. */
export const sidecarFront = struct("aerocorrect front", 21, {
  magic: ascii(0, 8).is(SIDECAR_MAGIC),
  version: u8(8).is(SIDECAR_VERSION),
  firstCount: u32(9),
  secondCount: u32(13),
  thirdCount: u32(17),
});

/** One line per row of docs/formats/aerocorrect.md#directory. Rows of segments follow, then a checksum of all of it. */
export const directoryHead = struct("aerocorrect directory", 72, {
  totalLength: u64(0),
  bindingId: bytes(8, 32),
  contentSha256: bytes(40, 32),
});

/** A segment: the window that it protects, and the length of its parity payload. */
export const segmentRow = struct("aerocorrect segment", 56, {
  windowOffset: u64(0),
  windowLength: u64(8),
  avecLength: u64(16),
  /** A copy of the first bytes of the payload; zeros if the payload is empty. */
  avecHeader: bytes(24, 32),
});

/** Segments of a vault's sidecar, by their position (docs/formats/aerocorrect.md#sidecars-of-vaults). */
export const HEADER_SEGMENT = 0;
export const MANIFEST_SEGMENT = 1;
export const DATA_SEGMENT = 2;
export const VAULT_SEGMENTS = 3;
/** The first window of a vault's sidecar: its header. A format does not import another, so a test compares the two. */
export const VAULT_HEADER_BYTES = 1024;

/** Number of copies of the directory. */
export const DIRECTORY_COPIES = 3;
/** BLAKE3 after each copy of the directory, and at the end of version 1. */
export const DIGEST_BYTES = 32;

/** Version 1, docs/formats/aerocorrect.md#version-1. */
export const frontV1 = struct("aerocorrect front, version 1", 85, {
  magic: ascii(0, 8).is(SIDECAR_MAGIC),
  version: u8(8).is(1),
  bindingId: bytes(9, 32),
  contentSha256: bytes(41, 32),
  totalLength: u64(73),
  segmentCount: u32(81),
});

/** A segment of version 1; its payload follows it. */
export const segmentRowV1 = struct("aerocorrect segment, version 1", 24, {
  windowOffset: u64(0),
  windowLength: u64(8),
  avecLength: u64(16),
});

/**
 * With more, three directories would take over 64 MiB, and readers skip such a count
 * (docs/formats/aerocorrect.md#front).
 */
export const MOST_SEGMENTS = 399_455;

/** Length of one copy of the directory without its checksum. */
export function directoryBytes(segmentCount: number): number {
  return directoryHead.byteLength + segmentRow.byteLength * segmentCount;
}

/** Offset of the payloads. */
export function payloadsAt(segmentCount: number): number {
  return sidecarFront.byteLength + DIRECTORY_COPIES * (directoryBytes(segmentCount) + DIGEST_BYTES);
}
