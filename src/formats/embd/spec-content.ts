import type { Bytes } from "../../base/bytes.ts";
import type { Location } from "../../base/errors.ts";
import type { Steps } from "../../base/turns.ts";
import { checkApart, uniqueTensors } from "./index-rules.ts";
import { FILE_FLAGS, tensorDescriptor } from "./layout.ts";
import type { EmbdLimits } from "./limits.ts";
import { decodeMetadataSection, type TextEntry } from "./metadata-section.ts";
import type { Front } from "./read-front.ts";
import type { SpecHeader } from "./spec-header.ts";
import { decodeIndex, type IndexContext, type IndexEntry } from "./tensor-index.ts";
import type { Tolerance } from "./tolerance.ts";
import { type DecodedVocabulary, decodeVocabularySection } from "./vocabulary-section.ts";

/** What the sections before the data say. */
export interface SpecContent {
  /** As the file has them: an origin may be in several parts. */
  readonly entries: readonly TextEntry[];
  readonly vocabulary: DecodedVocabulary | undefined;
  /** In the order of the file. */
  readonly index: readonly IndexEntry[];
}

export interface ContentContext {
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
