import { type Decoded, struct, u16, u32, u64 } from "../../struct/layout.ts";

/** Records of a ZIP, one line per row of docs/formats/aerovault1.md#zip; the names are shortened from APPNOTE.TXT. */
export const LOCAL_HEADER_BYTES = 30;
export const localHeader = struct("ZIP local header", LOCAL_HEADER_BYTES, {
  signature: u32(0).is(0x04034b50),
  versionNeeded: u16(4),
  flags: u16(6),
  method: u16(8),
  time: u16(10),
  date: u16(12),
  crc: u32(14),
  compressedSize: u32(18),
  size: u32(22),
  nameLength: u16(26),
  extraLength: u16(28),
});

export const CENTRAL_ROW_BYTES = 46;
export const centralRow = struct("ZIP directory row", CENTRAL_ROW_BYTES, {
  signature: u32(0).is(0x02014b50),
  versionMadeBy: u16(4),
  versionNeeded: u16(6),
  flags: u16(8),
  method: u16(10),
  time: u16(12),
  date: u16(14),
  crc: u32(16),
  compressedSize: u32(20),
  size: u32(24),
  nameLength: u16(28),
  extraLength: u16(30),
  commentLength: u16(32),
  disk: u16(34),
  internalAttributes: u16(36),
  externalAttributes: u32(38),
  localOffset: u32(42),
});
export type CentralRow = Decoded<typeof centralRow>;

export const END_BYTES = 22;
export const endRecord = struct("ZIP end record", END_BYTES, {
  signature: u32(0).is(0x06054b50),
  disk: u16(4).is(0),
  directoryDisk: u16(6).is(0),
  rowsHere: u16(8),
  rows: u16(10),
  directoryBytes: u32(12),
  directoryOffset: u32(16),
  // A comment could hold a second end record, and readers would disagree about which one counts.
  commentLength: u16(20).is(0),
});

export const LOCATOR_SIGNATURE = 0x07064b50;
export const LOCATOR_BYTES = 20;
export const zip64Locator = struct("ZIP64 locator", LOCATOR_BYTES, {
  signature: u32(0).is(LOCATOR_SIGNATURE),
  endDisk: u32(4).is(0),
  endOffset: u64(8),
  disks: u32(16),
});

export const ZIP64_END_BYTES = 56;
export const zip64End = struct("ZIP64 end record", ZIP64_END_BYTES, {
  signature: u32(0).is(0x06064b50),
  // Counts what follows this field: more would be data of an unknown extension.
  recordBytes: u64(4).is(ZIP64_END_BYTES - 12),
  versionMadeBy: u16(12),
  versionNeeded: u16(14),
  disk: u32(16).is(0),
  directoryDisk: u32(20).is(0),
  rowsHere: u64(24),
  rows: u64(32),
  directoryBytes: u64(40),
  directoryOffset: u64(48),
});

/** "See the ZIP64 record", in fields of either length. */
export const IN_ZIP64_16 = 0xffff;
export const IN_ZIP64_32 = 0xffff_ffff;

/** Bits of the flags. */
export const FLAG = { encrypted: 1, descriptor: 1 << 3, utf8: 1 << 11 } as const;
/** The flags above, and two that say how hard the compressor tried. */
export const KNOWN_FLAGS = FLAG.encrypted | FLAG.descriptor | FLAG.utf8 | 0b110;

/** Compression methods; WinZip's means "the real one is in the extra field". */
export const METHOD = { stored: 0, deflated: 8, winzip: 99 } as const;
/** The most that deflate can expand, per byte. */
export const MAX_EXPANSION = 1032;
