import { type Bytes, concatBytes } from "../../../base/bytes.ts";
import { LimitError } from "../../../base/errors.ts";
import { alignUp } from "../../../base/integers.ts";
import type { Shape } from "../../../model/shape.ts";
import { ByteWriter } from "../../../struct/byte-writer.ts";
import {
  DATA_ALIGNMENT,
  DIMENSION_BYTES,
  ENTRY_BYTES,
  fileFooter,
  fileHeader,
  indexHeader,
  MAGIC_END,
  VERSION,
} from "./layout.ts";

/** One entry of the index, its place known. */
export interface IndexRow {
  readonly nameBytes: Bytes;
  /** Type id. */
  readonly dtype: number;
  readonly shape: Shape;
  readonly offset: number;
  readonly size: number;
  readonly rawSize: number;
  readonly flags: number;
}

/** Where the parts of the front matter lie. */
export interface FrontLayout {
  readonly indexOffset: number;
  readonly indexSize: number;
  readonly dataOffset: number;
}

/** Lengths follow from names and dimensions alone, so that data can be written before the index. */
export function layOutFront(
  metadataBytes: number,
  rows: readonly Pick<IndexRow, "nameBytes" | "shape">[],
  name: string,
): FrontLayout {
  let indexSize = indexHeader.byteLength;
  for (const { nameBytes, shape } of rows) {
    indexSize += ENTRY_BYTES + nameBytes.byteLength + DIMENSION_BYTES * shape.length;
  }
  const indexOffset = fileHeader.byteLength + metadataBytes;
  const dataOffset = alignUp(indexOffset + indexSize, DATA_ALIGNMENT);
  if (dataOffset > 0xffff_ffff) {
    const message = `Cannot write APR: metadata and index must end below 4 GiB, found ${dataOffset}`;
    throw new LimitError("limit/apr.front-bytes", message, { source: name, path: "data_offset" });
  }
  return { indexOffset, indexSize, dataOffset };
}

/** Header, metadata, index and the zeros up to the data. */
export function encodeFront(flags: number, metadata: Bytes, rows: readonly IndexRow[], name: string): Bytes {
  const { indexOffset, indexSize, dataOffset } = layOutFront(metadata.byteLength, rows, name);
  const header = fileHeader.encode({
    versionMajor: VERSION.major,
    versionMinor: VERSION.minor,
    flags,
    metadataOffset: fileHeader.byteLength,
    metadataSize: metadata.byteLength,
    indexOffset,
    indexSize,
    dataOffset,
  });
  const padding = new Uint8Array(dataOffset - indexOffset - indexSize);
  return concatBytes([header, metadata, encodeIndex(rows, indexSize), padding]);
}

function encodeIndex(rows: readonly IndexRow[], byteLength: number): Bytes {
  const writer = new ByteWriter(byteLength);
  writer.u32(rows.length);
  writer.u32(0);
  for (const { nameBytes, dtype, shape, offset, size, rawSize, flags } of rows) {
    writer.u16(nameBytes.byteLength);
    writer.bytes(nameBytes);
    writer.u8(dtype);
    writer.u8(shape.length);
    for (const dimension of shape) writer.u64(dimension);
    writer.u64(offset);
    writer.u64(size);
    writer.u64(rawSize);
    writer.u32(flags);
  }
  return writer.take();
}

/** The last 16 bytes of a file that has `byteLength` with them. */
export function encodeFooter(crc32: number, byteLength: number): Bytes {
  return fileFooter.encode({ crc32, magicEnd: MAGIC_END, fileSize: byteLength });
}
