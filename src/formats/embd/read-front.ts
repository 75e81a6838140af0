import { type Bytes, EMPTY_BYTES } from "../../base/bytes.ts";
import { FormatError } from "../../base/errors.ts";
import { checkedAdd } from "../../base/integers.ts";
import type { Extent } from "../../bytes/extents.ts";
import type { Source } from "../../bytes/source.ts";
import { FILE_FLAGS, fileHeader } from "./layout.ts";
import { checkApart, place, type SpecHeader, sectionsOf } from "./spec-header.ts";
import { namesLength } from "./tensor-index.ts";

/** The bytes of every section but the data. */
export interface Front {
  readonly metadata: Bytes;
  /** Undefined where the file has none, or does not use it. */
  readonly vocabulary: Bytes | undefined;
  readonly descriptors: Bytes;
  readonly names: Bytes;
  /** Of the names, behind the descriptors. */
  readonly namesOffset: number;
  /** Everything before the tensor data, where that is what was read. */
  readonly whole: Bytes | undefined;
}

/** The sections of a front that is in memory whole; they must lie inside it. */
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

/** Names are usually shorter; reading so much more than the descriptors saves a round trip. */
const GUESSED_NAME_BYTES = 128;
/** Unused bytes that are read along; a file that scatters its sections is read piece by piece. */
const MAX_GAP = 64 << 10;

/**
 * Reads the sections. In files in the usual order they come in one read with the opening, elsewhere each in one of its own.
 * The header has been checked against the file's length and the limits.
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

function endOf({ offset, byteLength }: Extent): number {
  return byteLength === 0 ? offset : offset + byteLength;
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
