import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { LimitError } from "../../base/errors.ts";
import { alignUp } from "../../base/integers.ts";
import type { Shape } from "../../model/shape.ts";
import { crc32Javascript } from "../../primitives/digest/crc32-javascript.ts";
import {
  ALIGNMENT,
  CHECKED_BYTES,
  dtypeCode,
  FILE_FLAGS,
  type FileHeader,
  fileFooter,
  fileHeader,
  tensorDescriptor,
  VERSION,
} from "./layout.ts";
import { encodeMetadataSection, type TextEntry } from "./metadata-section.ts";
import { hashName } from "./name-hash.ts";
import { encodeVocabularySection, type VocabularyIds, vocabularyBytes } from "./vocabulary-section.ts";

/** What is to be written, in the order of the index. */
export interface FrontContent {
  readonly flags: number;
  readonly entries: readonly TextEntry[];
  readonly vocabulary: (VocabularyIds & { readonly entries: Bytes }) | undefined;
  readonly tensors: readonly FrontTensor[];
}

export interface FrontTensor {
  readonly nameBytes: Bytes;
  readonly dtype: string;
  readonly shape: Shape;
  readonly byteLength: number;
}

/** Everything before the tensor data, and where that will lie. */
export interface RenderedFront {
  readonly bytes: Bytes;
  /** From the beginning of the data, for each tensor. */
  readonly dataOffsets: readonly number[];
  readonly dataSize: number;
}

/** Header, metadata, vocabulary, index and the zeros up to the data. `name` is the file's, for messages. */
export function renderFront(content: FrontContent, name: string): RenderedFront {
  const { flags, vocabulary, tensors } = content;
  const align = FILE_FLAGS.has(flags, "TENSORS_ALIGNED") ? ALIGNMENT : 1;
  const metadata = encodeMetadataSection(content.entries);
  const vocabOffset = fileHeader.byteLength + metadata.byteLength;
  const vocabSize = vocabulary === undefined ? 0 : vocabularyBytes(vocabulary.entries);
  const indexOffset = vocabOffset + vocabSize;
  const namesBytes = tensors.reduce((sum, { nameBytes }) => sum + nameBytes.byteLength, 0);
  const controlEnd = indexOffset + tensors.length * tensorDescriptor.byteLength + namesBytes;
  const dataOffset = alignUp(controlEnd, align);
  checkFront(dataOffset, name);
  const { dataOffsets, dataSize } = placeTensors(tensors, align);
  const header = encodeHeader({
    versionMajor: VERSION.major,
    versionMinor: VERSION.minor,
    flags,
    metadataOffset: fileHeader.byteLength,
    metadataSize: metadata.byteLength,
    vocabOffset: vocabulary === undefined ? 0 : vocabOffset,
    vocabSize,
    tensorIndexOffset: indexOffset,
    tensorIndexCount: tensors.length,
    tensorDataOffset: dataOffset,
    tensorDataSize: dataSize,
    totalFileSize: dataOffset + dataSize + fileFooter.byteLength,
  });
  const bytes = concatBytes([
    header,
    metadata,
    ...(vocabulary === undefined ? [] : [encodeVocabularySection(vocabulary.entries, vocabulary, vocabOffset)]),
    ...tensors.map((tensor, i) => encodeDescriptor(tensor, dataOffsets[i] ?? 0)),
    ...tensors.map(({ nameBytes }) => nameBytes),
    new Uint8Array(dataOffset - controlEnd),
  ]);
  return { bytes, dataOffsets, dataSize };
}

/** tensor_data_offset has 32 bits; the data behind it may be longer. */
export function checkFront(dataOffset: number, name: string): void {
  if (dataOffset <= 0xffff_ffff) return;
  const message = `Cannot write EMBD: metadata, vocabulary and index must end below 4 GiB, found ${dataOffset}`;
  throw new LimitError("limit/embd.front-bytes", message, { source: name, path: "tensor_data_offset" });
}

function placeTensors(tensors: readonly FrontTensor[], align: number): Omit<RenderedFront, "bytes"> {
  let end = 0;
  const dataOffsets = tensors.map(({ byteLength }) => {
    const offset = alignUp(end, align);
    end = offset + byteLength;
    return offset;
  });
  return { dataOffsets, dataSize: end };
}

/** With its checksum, where the flags say that there are any. */
export function encodeHeader(fields: Omit<FileHeader, "magic" | "headerChecksum" | "reserved">): Bytes {
  const bytes = fileHeader.encode({ ...fields, headerChecksum: 0 });
  if (!FILE_FLAGS.has(fields.flags, "CHECKSUM_ENABLED")) return bytes;
  const headerChecksum = crc32Javascript(bytes.subarray(0, CHECKED_BYTES), 0);
  return fileHeader.encode({ ...fields, headerChecksum });
}

function encodeDescriptor({ nameBytes, dtype, shape }: FrontTensor, dataOffset: number): Bytes {
  const [shape0 = 0, shape1 = 0, shape2 = 0, shape3 = 0] = shape;
  return tensorDescriptor.encode({
    nameHash: hashName(nameBytes),
    dtype: dtypeCode(dtype) ?? 0,
    ndim: shape.length,
    nameLength: nameBytes.byteLength,
    shape0,
    shape1,
    shape2,
    shape3,
    dataOffset,
  });
}
