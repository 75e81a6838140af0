import { type Bytes, concatBytes, EMPTY_BYTES } from "../../../base/bytes.ts";
import { FormatError, LimitError } from "../../../base/errors.ts";
import { alignUp, checkedAdd } from "../../../base/integers.ts";
import { type Extent, endOf } from "../../../bytes/extents.ts";
import type { Source } from "../../../bytes/source.ts";
import type { Shape } from "../../../model/dtype.ts";
import { crc32Javascript } from "../../../primitives/digest/crc32.ts";
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
} from "../layout.ts";
import { checkApart, place, type SpecHeader, sectionsOf } from "./header.ts";
import { encodeMetadataSection, type TextEntry } from "./metadata.ts";
import { hashName, namesLength } from "./tensors.ts";
import { encodeVocabularySection, type VocabularyIds, vocabularyBytes } from "./vocabulary.ts";

/** The bytes of every section except the data. */
export interface Front {
  readonly metadata: Bytes;
  /** Undefined if the file has none, or does not use it. */
  readonly vocabulary: Bytes | undefined;
  readonly descriptors: Bytes;
  readonly names: Bytes;
  /** Offset of the names, after the descriptors. */
  readonly namesOffset: number;
  /** Everything before the tensor data, if all of it was read. */
  readonly whole: Bytes | undefined;
}

/** The sections of a front that is completely in memory; they must lie inside it. */
export function sliceFront(whole: Bytes, { header }: SpecHeader): Front {
  const { metadata, vocabulary, index } = sectionsOf(header);
  const cut = ({ offset, byteLength }: Extent): Bytes => whole.subarray(offset, offset + byteLength);
  const namesOffset = index.offset + index.byteLength;
  const descriptors = cut(index);
  return {
    metadata: cut(metadata),
    vocabulary: FILE_FLAGS.has(header.flags, "VOCAB_EMBEDDED") ? cut(vocabulary) : undefined,
    descriptors,
    names: cut({ offset: namesOffset, byteLength: namesLength(descriptors) }),
    namesOffset,
    whole,
  };
}

/** Names are usually shorter than this. Reading this much more than the descriptors saves a round trip. */
const GUESSED_NAME_BYTES = 128;
/** Unused bytes that may be read along. A file with scattered sections is read piece by piece. */
const MAX_GAP = 64 << 10;

/**
 * Reads the sections. In files with the usual order they come in one read with the opening; otherwise each takes its
 * own read. The header has already been checked against the file's length and the limits.
 */
export async function readFront(
  source: Source,
  opening: Bytes,
  { header, footerOffset, end }: SpecHeader,
  signal: AbortSignal | undefined,
): Promise<Front> {
  const sections = sectionsOf(header);
  const { metadata, vocabulary, index, data } = sections;
  const controlEnd = Math.max(fileHeader.byteLength, ...[metadata, vocabulary, index].map(endOf));
  const usedBytes = fileHeader.byteLength + metadata.byteLength + vocabulary.byteLength + index.byteLength;
  const isUsual = controlEnd <= data.offset && controlEnd - usedBytes <= MAX_GAP;
  const guess = Math.min(data.offset, controlEnd + header.tensorIndexCount * GUESSED_NAME_BYTES);
  let front = isUsual && guess > opening.byteLength ? await source.read(0, guess, { signal }) : opening;
  const take = async ({ offset, byteLength }: Extent): Promise<Bytes> => {
    if (byteLength === 0) return EMPTY_BYTES;
    if (offset + byteLength <= front.byteLength) return front.subarray(offset, offset + byteLength);
    return source.read(offset, byteLength, { signal });
  };
  const descriptors = await take(index);
  const names = { name: "tensor names", offset: endOf(index), byteLength: namesLength(descriptors) };
  checkNames(names, { end: footerOffset ?? end, source: source.label });
  checkApart([...Object.values(sections), names], source.label);
  const isNear = isUsual && data.offset - endOf(names) <= MAX_GAP;
  if (isNear && data.offset > front.byteLength) front = await source.read(0, data.offset, { signal });
  return {
    metadata: await take(metadata),
    vocabulary: FILE_FLAGS.has(header.flags, "VOCAB_EMBEDDED") ? await take(vocabulary) : undefined,
    descriptors,
    names: await take(names),
    namesOffset: names.offset,
    whole: isNear ? front.subarray(0, data.offset) : undefined,
  };
}

function checkNames(
  { offset, byteLength }: Extent,
  { end, source }: { readonly end: number; readonly source: string },
): void {
  const at = place(source, "tensor_index_offset");
  if (byteLength === 0 || checkedAdd(offset, byteLength, at) <= end) return;
  const message = `Cannot read EMBD tensor names: their ${byteLength} bytes at ${offset} must end before ${end}`;
  throw new FormatError("format/embd.index", message, { ...at, offset, path: "tensor_index.names" });
}

/** The content to write, in the order of the index. */
export interface FrontContent {
  readonly flags: number;
  readonly entries: readonly TextEntry[];
  readonly vocabulary: (VocabularyIds & { readonly entries: Bytes }) | undefined;
  readonly tensors: readonly FrontTensor[];
}

interface FrontTensor {
  readonly nameBytes: Bytes;
  readonly dtype: string;
  readonly shape: Shape;
  readonly byteLength: number;
}

/** Everything before the tensor data, and the place of each tensor in the data. */
export interface RenderedFront {
  readonly bytes: Bytes;
  /** Offset of each tensor, from the beginning of the data. */
  readonly dataOffsets: readonly number[];
  readonly dataSize: number;
}

/** Header, metadata, vocabulary, index and the zeros up to the data. `name` is the file's name, for messages. */
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

/** tensor_data_offset has 32 bits; the data after it may be longer. */
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

/** The header with its checksum, if the flags enable checksums. */
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
