import type { Bytes } from "../../../base/bytes.ts";
import { FormatError, type Location, type TareError } from "../../../base/errors.ts";
import { inTurns, type Steps } from "../../../base/turns.ts";
import { sliceSource } from "../../../bytes/slice.ts";
import type { Source } from "../../../bytes/source.ts";
import { SPECIAL_KEY, TOKENS_KEY } from "../../../model/bert/vocabulary.ts";
import type { OpenContext } from "../../../model/format.ts";
import { Metadata, type MetadataEntry } from "../../../model/metadata.ts";
import type { Model } from "../../../model/model.ts";
import { Tensor } from "../../../model/tensor.ts";
import { ALIGNMENT, FILE_FLAGS, tensorDescriptor, VERSION } from "../layout.ts";
import { type EmbdLimits, embdLimits, type Tolerance } from "../limits.ts";
import { EmbdModel, type SpecContent, type SpecDetails } from "../model.ts";
import { readFooter } from "./footer.ts";
import { type Front, readFront } from "./front.ts";
import { decodeHeader, type SpecHeader } from "./header.ts";
import { decodeMetadataSection, joinOrigin } from "./metadata.ts";
import { checkApart, decodeIndex, type IndexContext, type IndexEntry, uniqueTensors } from "./tensors.ts";
import { decodeVocabularySection, vocabularyMetadata } from "./vocabulary.ts";

/** Opens a file of the specification's layout. Reads no tensor data. */
export async function openSpec(
  source: Source,
  opening: Bytes,
  context: OpenContext,
  tolerance: Tolerance,
): Promise<EmbdModel> {
  const { label } = source;
  const limits = embdLimits(context.limits);
  const spec = decodeHeader(opening, { source: label, byteLength: source.byteLength, limits, tolerance });
  const { header } = spec;
  const front = await readFront(source, opening, spec, context.signal);
  const content = await inTurns(decodeContent(front, spec, { source: label, limits, tolerance }), context.signal);
  checkBase(spec, label, tolerance);
  const footer = await readFooter(source, opening, spec, { ...context, tolerance });
  const namesEnd = front.namesOffset + front.names.byteLength;
  const details: SpecDetails = {
    layout: "spec",
    ...spec,
    ...content,
    source,
    namesEnd,
    front: front.whole,
    footer,
  };
  const { metadata, unread } = specMetadata(details, tolerance);
  return new EmbdModel({
    source,
    version: `${VERSION.major}.${header.versionMinor}`,
    metadata,
    unread,
    tensors: specTensors(details),
    warnings: tolerance.warnings,
    facts: specFacts(details),
    details,
  });
}

/** If every data_offset is a multiple of 64 but the base is not, no tensor is aligned in the file or in memory. */
function checkBase({ header }: SpecHeader, source: string, tolerance: Tolerance): void {
  const { tensorDataOffset, flags } = header;
  if (!FILE_FLAGS.has(flags, "TENSORS_ALIGNED") || tensorDataOffset % ALIGNMENT === 0) return;
  const message = `TENSORS_ALIGNED is set, but tensor_data_offset is no multiple of ${ALIGNMENT}: found ${tensorDataOffset}`;
  const at = { source, offset: 36, path: "header.tensor_data_offset" };
  tolerance.warn(new FormatError("format/embd.data-alignment", message, at));
}

function specTensors({ index, header, source }: SpecDetails): Tensor[] {
  const reader = { source: (tensor: Tensor): Source => sliceSource(source, tensor.offset, tensor.byteLength) };
  return index.map(({ name, dtype, shape, byteLength, dataOffset }) => {
    return new Tensor({ name, dtype, shape, byteLength, offset: header.tensorDataOffset + dataOffset }, reader);
  });
}

/** The entries of the file and its vocabulary, under the keys that every format uses for a vocabulary. */
function specMetadata(
  { entries, vocabulary, header, source }: SpecDetails,
  tolerance: Tolerance,
): { readonly metadata: Metadata; readonly unread: Model["unread"] } {
  const joined = joinOrigin(entries);
  const own = vocabulary === undefined ? [] : vocabularyMetadata(vocabulary);
  const reserved = new Set(own.map(({ key }) => key));
  const hidden = joined.filter(({ key }) => reserved.has(key));
  const shown: MetadataEntry[] = [...joined.filter(({ key }) => !reserved.has(key)), ...own];
  for (const { key } of hidden) {
    const message = `The metadata has the key "${key}", which holds the vocabulary: the text is not shown`;
    const at = { source: source.label, offset: header.metadataOffset, path: `metadata.${key}` };
    const error: TareError = new FormatError("format/embd.reserved-key", message, at);
    tolerance.warn(error);
  }
  const unread = hidden.map(({ key }) => ({ name: key, reason: "this key holds the vocabulary" }));
  return { metadata: new Metadata(shown), unread: unread.length === 0 ? undefined : unread };
}

/** The keys that hold the vocabulary in the model. */
export const VOCABULARY_KEYS: readonly string[] = [TOKENS_KEY, SPECIAL_KEY];

function specFacts({ header, vocabulary }: SpecDetails): Model["facts"] {
  const names = FILE_FLAGS.decode(header.flags);
  return [
    ["flags", names.length === 0 ? "none" : names.join(" ")],
    ["vocabulary", vocabulary === undefined ? "none" : `${vocabulary.tokens.length} tokens`],
  ];
}

interface ContentContext {
  readonly source: string;
  readonly limits: EmbdLimits;
  readonly tolerance: Tolerance;
}

/** Decodes metadata, vocabulary and index. */
export function* decodeContent(front: Front, { header }: SpecHeader, context: ContentContext): Steps<SpecContent> {
  const { source, limits, tolerance } = context;
  const entries = yield* decodeMetadataSection(front.metadata, { source, offset: header.metadataOffset, tolerance });
  const place = { source, offset: header.vocabOffset, tolerance, maxTokens: limits.tokens };
  const vocabulary = front.vocabulary === undefined ? undefined : decodeVocabularySection(front.vocabulary, place);
  const index = yield* decodeEntries(front.descriptors, front.names, {
    source,
    offset: header.tensorIndexOffset,
    dataSize: header.tensorDataSize,
    alignment: FILE_FLAGS.has(header.flags, "TENSORS_ALIGNED") ? "aligned" : "packed",
    tolerance,
  });
  return { entries, vocabulary, index };
}

function* decodeEntries(descriptors: Bytes, names: Bytes, context: IndexContext): Steps<readonly IndexEntry[]> {
  const all = yield* decodeIndex(descriptors, names, context);
  const at = (index: number): Location => ({
    source: context.source,
    offset: context.offset + index * tensorDescriptor.byteLength,
    path: `tensor_index[${index}]`,
  });
  checkApart(all, at);
  return uniqueTensors(all, at, context.tolerance);
}
