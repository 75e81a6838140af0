import { SPECIAL_KEY, TOKENS_KEY } from "../../model/bert/vocabulary.ts";
import { arrayValue, type MetadataEntry, type MetadataValue } from "../../model/metadata.ts";
import type { VocabularySection } from "./vocabulary-section.ts";

/** A vocabulary as entries of a model's metadata: the tokens, and the ids of the special ones where they are known. */
export function vocabularyMetadata({ tokens, special }: VocabularySection): MetadataEntry[] {
  const entries: MetadataEntry[] = [{ key: TOKENS_KEY, value: tokens as MetadataValue }];
  if (special === undefined) return entries;
  const ids = special.map((value): MetadataValue => ({ type: "u32", value }));
  return [...entries, { key: SPECIAL_KEY, value: arrayValue(ids, "u32") }];
}
