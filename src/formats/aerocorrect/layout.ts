import { ascii, bytes, type Decoded, struct, u8, u32, u64 } from "../../struct/layout.ts";

export const SIDECAR_MAGIC = "AEROCORR";
/** What is written; version 1 is only read. */
export const SIDECAR_VERSION = 2;
/** What a sidecar's name adds to that of its file. */
export const SIDECAR_SUFFIX = ".aerocorrect";

/** What both versions begin with. */
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

/** One line per row of docs/formats/aerocorrect.md#directory; rows of segments follow, then a checksum of all of it. */
export const directoryHead = struct("aerocorrect directory", 72, {
  totalLength: u64(0),
  bindingId: bytes(8, 32),
  contentSha256: bytes(40, 32),
});
export type DirectoryHead = Decoded<typeof directoryHead>;

/** A segment: what it protects, and the payload that does. */
export const segmentRow = struct("aerocorrect segment", 56, {
  windowOffset: u64(0),
  windowLength: u64(8),
  avecLength: u64(16),
  /** A copy of the first bytes of the payload, zeros where that is empty. */
  avecHeader: bytes(24, 32),
});
export type SegmentRow = Decoded<typeof segmentRow>;

/** How often the directory is there. */
export const DIRECTORY_COPIES = 3;
/** BLAKE3 behind each copy of the directory, and at the end of version 1. */
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

/** With more, three copies of the directory would take over 64 MiB: such a count is not believed (dossier 5.6). */
export const MOST_SEGMENTS = 399_455;

/** One copy of the directory without its checksum. */
export function directoryBytes(segmentCount: number): number {
  return directoryHead.byteLength + segmentRow.byteLength * segmentCount;
}

/** Where the payloads begin. */
export function payloadsAt(segmentCount: number): number {
  return sidecarFront.byteLength + DIRECTORY_COPIES * (directoryBytes(segmentCount) + DIGEST_BYTES);
}
