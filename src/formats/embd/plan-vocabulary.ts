import type { Bytes } from "../../base/bytes.ts";
import { SPECIAL_KEY, TOKENS_KEY } from "../../model/bert/vocabulary.ts";
import type { Loss } from "../../model/format.ts";
import { type ArrayValue, arrayValue, type Metadata, type MetadataValue } from "../../model/metadata.ts";
import { ByteWriter } from "../../struct/byte-writer.ts";
import { MAX_TEXT_BYTES } from "./layout.ts";
import { textBytes } from "./metadata-section.ts";
import { isWellFormed } from "./plan-tensors.ts";
import { NO_TOKEN, SPECIAL_TEXTS, specialsByText } from "./special-tokens.ts";
import { TokenList, walkTokens } from "./token-list.ts";
import type { VocabularyIds } from "./vocabulary-section.ts";

/** The vocabulary as the file will have it. */
export interface PlannedVocabulary extends VocabularyIds {
  readonly entries: Bytes;
  /** Keys of the metadata that the section holds. */
  readonly keys: ReadonlySet<string>;
  /** "derived" where the metadata did not have the special ids: they come from the tokens. */
  readonly specials: "given" | "derived";
}

export interface VocabularyPlan {
  readonly vocabulary: PlannedVocabulary | undefined;
  /** With the special ids, where they were derived and are to be the model's own. */
  readonly metadata: Metadata;
  readonly losses: readonly Loss[];
  readonly notes: readonly string[];
}

/**
 * Takes the vocabulary from a model's metadata; what is there under its keys and is none stays metadata. Special ids that
 * nobody gave come from the tokens, and are "own" from then on or merely "added" for the file's sake.
 */
export function planVocabulary(metadata: Metadata, completion: "own" | "added"): VocabularyPlan {
  const nothing: VocabularyPlan = { vocabulary: undefined, metadata, losses: [], notes: [] };
  const value = metadata.get(TOKENS_KEY);
  if (value?.type !== "array") return nothing;
  const entries = encodeTokens(value);
  if (entries === undefined) return nothing;
  if (entries === "too-long") {
    const reason = `a token has more than ${MAX_TEXT_BYTES} bytes`;
    return { ...nothing, losses: [{ name: TOKENS_KEY, reason }] };
  }
  const shared = { entries, count: value.length };
  const given = idsOf(metadata.get(SPECIAL_KEY));
  const both = new Set([TOKENS_KEY, SPECIAL_KEY]);
  if (given !== undefined) {
    return { ...nothing, vocabulary: { ...shared, special: given, keys: both, specials: "given" } };
  }
  const derived = derive(entries, value.length);
  const special = derived ?? SPECIAL_TEXTS.map(() => NO_TOKEN);
  const notes = derived === undefined ? [NO_SPECIALS] : [];
  if (completion === "added" || metadata.get(SPECIAL_KEY) !== undefined) {
    const keys = new Set([TOKENS_KEY]);
    return { ...nothing, notes, vocabulary: { ...shared, special, keys, specials: "derived" } };
  }
  const ids = arrayValue(
    special.map((id) => ({ type: "u32", value: id })),
    "u32",
  );
  const vocabulary: PlannedVocabulary = { ...shared, special, keys: both, specials: "given" };
  return { ...nothing, notes, vocabulary, metadata: metadata.with(SPECIAL_KEY, ids) };
}

const NO_SPECIALS = "The vocabulary has no [UNK], [CLS] or [SEP]: its special ids are left empty";

/** Token entries; undefined where an element is no text that a file could hold. */
function encodeTokens(value: ArrayValue): Bytes | "too-long" | undefined {
  if (value instanceof TokenList) return value.encodeEntries() ?? "too-long";
  const writer = new ByteWriter(16 * value.length);
  let isTooLong = false;
  for (const token of value.slice()) {
    if (token.type !== "string" || (token.raw === undefined && !isWellFormed(token.value))) return undefined;
    const bytes = textBytes(token);
    if (bytes.byteLength > MAX_TEXT_BYTES) isTooLong = true;
    else writer.u16(bytes.byteLength);
    if (!isTooLong) writer.bytes(bytes);
  }
  return isTooLong ? "too-long" : writer.take();
}

function derive(entries: Bytes, count: number): readonly number[] | undefined {
  const walk = walkTokens(entries, 0, count);
  return "tokens" in walk ? specialsByText(walk.tokens) : undefined;
}

/** Five ids of 32 bits; undefined where the value is anything else. */
function idsOf(value: MetadataValue | undefined): readonly number[] | undefined {
  if (value?.type !== "array" || value.length !== SPECIAL_TEXTS.length) return undefined;
  const ids: number[] = [];
  for (const item of value.slice()) {
    if (item.type === "bool" || !("value" in item) || typeof item.value !== "number") return undefined;
    if (!Number.isSafeInteger(item.value) || item.value < 0 || item.value > NO_TOKEN) return undefined;
    ids.push(item.value);
  }
  return ids;
}
