import { encodeUtf8 } from "../../base/text.ts";
import type { MetadataEntry } from "../../model/metadata.ts";
import type { Piece } from "../../model/pieces.ts";
import { ByteWriter } from "../../struct/byte-writer.ts";
import { encodeGgufValue } from "./encode-values.ts";
import { fileHeader } from "./layout.ts";
import type { StoredTensor } from "./stored-tensors.ts";

/** A tensor and where its bytes go, counted from the start of the data. */
export interface PlacedTensor extends StoredTensor {
  readonly offset: number;
}

export interface HeaderContent {
  readonly version: 2 | 3;
  readonly entries: readonly MetadataEntry[];
  readonly tensors: readonly PlacedTensor[];
}

/** Values from this size on are written from where they are instead of being copied together. */
const LARGE_VALUE = 64 << 10;

/** The header as pieces: small parts joined, large values as views of what the reader holds. */
export function headerPieces({ version, entries, tensors }: HeaderContent): {
  readonly pieces: readonly Piece[];
  readonly byteLength: number;
} {
  const pieces: Piece[] = [];
  const writer = new ByteWriter(4096);
  const flush = (): void => {
    if (writer.byteLength > 0) pieces.push({ kind: "bytes", bytes: writer.take() });
  };
  writer.bytes(fileHeader.encode({ version, tensorCount: tensors.length, metadataKvCount: entries.length }));
  for (const { key, value } of entries) {
    writeText(writer, key);
    const bytes = encodeGgufValue(value);
    if (bytes.byteLength < LARGE_VALUE) {
      writer.bytes(bytes);
    } else {
      flush();
      pieces.push({ kind: "bytes", bytes });
    }
  }
  for (const tensor of tensors) writeInfo(writer, tensor);
  flush();
  let byteLength = 0;
  for (const piece of pieces) if (piece.kind === "bytes") byteLength += piece.bytes.byteLength;
  return { pieces, byteLength };
}

function writeText(writer: ByteWriter, text: string): void {
  const bytes = encodeUtf8(text);
  writer.u64(bytes.byteLength);
  writer.bytes(bytes);
}

function writeInfo(writer: ByteWriter, { tensor, typeId, shape, offset }: PlacedTensor): void {
  writeText(writer, tensor.name);
  writer.u32(shape.length);
  for (const dimension of [...shape].reverse()) writer.u64(dimension);
  writer.u32(typeId);
  writer.u64(offset);
}
