import { encodeUtf8 } from "../../base/text.ts";
import { SPECIAL_KEY, TOKENS_KEY } from "../../model/bert/vocabulary.ts";
import { addedEntry, type Holding, packMetadata } from "../../model/carry.ts";
import type { Loss } from "../../model/format.ts";
import type { Metadata, MetadataEntry, StringValue } from "../../model/metadata.ts";
import { type CarriedEntry, type CarriedTensor, encodeOrigin, type OriginLink } from "../../model/origin.ts";
import { ORIGIN_KEY } from "../../model/origin-key.ts";
import { MAX_TEXT_BYTES } from "./layout.ts";
import { type TextEntry, textBytes } from "./metadata-section.ts";
import { isOriginPart, splitOrigin } from "./origin-entries.ts";
import { isWellFormed } from "./plan-tensors.ts";
import type { PlannedVocabulary } from "./plan-vocabulary.ts";

export interface MetadataContent {
  readonly metadata: Metadata;
  readonly vocabulary: PlannedVocabulary | undefined;
  /** Required keys that the model does not have and should not have when it goes back. */
  readonly required: readonly TextEntry[];
  /** What others need to write their files again. */
  readonly chain: readonly OriginLink[];
  readonly tensors: readonly CarriedTensor[];
}

export interface MetadataPlan {
  readonly entries: readonly TextEntry[];
  readonly losses: readonly Loss[];
}

/** The entries of the metadata section: required ones first, then the model's own, and what neither can hold in `tare.origin`. */
export function planMetadata(content: MetadataContent): MetadataPlan {
  const { metadata, required, chain, tensors } = content;
  const needed = chain.length > 0 || tensors.length > 0;
  const first = pack(content, needed ? "taken" : "free");
  const packed = first.carried === undefined ? first : pack(content, "taken");
  const { carried } = packed;
  const losses = metadata.entries.flatMap((entry) => lossOf(entry, content.vocabulary));
  const entries = [...required, ...packed.native];
  if (!needed && carried === undefined) return { entries, losses };
  const origin = encodeOrigin({
    chain,
    ...(carried === undefined ? {} : { entries: carried }),
    ...(tensors.length === 0 ? {} : { tensors }),
  });
  return { entries: [...entries, ...splitOrigin(origin)], losses };
}

interface Packed {
  readonly native: readonly TextEntry[];
  readonly carried: readonly CarriedEntry[] | undefined;
}

/** Somebody else's value under our key gives way where the key is needed. */
function pack({ metadata, vocabulary, required }: MetadataContent, originKey: "taken" | "free"): Packed {
  const held = vocabulary?.keys ?? new Set<string>();
  const { native, entries } = packMetadata(metadata, (entry) => {
    if (held.has(entry.key)) return vocabularyHolding(entry);
    // The reader shows the section under these keys, so nothing else can stand there.
    if (vocabulary !== undefined && (entry.key === TOKENS_KEY || entry.key === SPECIAL_KEY)) return "none";
    if (originKey === "taken" && entry.key === ORIGIN_KEY) return "none";
    return textHolding(entry);
  });
  const added = required.map(({ key }) => addedEntry(key));
  const isDerived = vocabulary?.specials === "derived" && metadata.get(SPECIAL_KEY) === undefined;
  if (isDerived) added.push(addedEntry(SPECIAL_KEY));
  const texts = native.filter(({ key }) => !held.has(key)) as TextEntry[];
  const isAsRead = entries === undefined && added.length === 0 && isInOrder(metadata, held);
  const carried = isAsRead ? undefined : [...(entries ?? metadata.entries.map(({ key }) => [key] as const)), ...added];
  return { native: texts, carried };
}

/** The reader puts the vocabulary behind everything else. */
function isInOrder(metadata: Metadata, held: ReadonlySet<string>): boolean {
  const keys = metadata.entries.map(({ key }) => key);
  const wanted = [...keys.filter((key) => !held.has(key)), ...held];
  return keys.every((key, i) => key === wanted[i]);
}

function vocabularyHolding({ key, value }: MetadataEntry): Holding {
  const type = value.type === "array" ? value.elementType : undefined;
  return type === (key === TOKENS_KEY ? "string" : "u32") ? "native" : "untyped";
}

/** Strings are native; numbers and booleans are legible text; everything else is carried. */
function textHolding({ key, value }: MetadataEntry): Holding {
  if (isOriginPart(key) || !isWellFormed(key) || encodeUtf8(key).byteLength > MAX_TEXT_BYTES) return "none";
  switch (value.type) {
    case "string":
      return isHoldable(value) ? "native" : "none";
    case "bool":
      return value.raw === undefined ? "text" : "none";
    case "array":
    case "map":
    case "bytes":
    case "null":
      return "none";
    default:
      return "text";
  }
}

/** True for text that a value of the section can be. */
export function isHoldable(value: StringValue): boolean {
  return (value.raw !== undefined || isWellFormed(value.value)) && textBytes(value).byteLength <= MAX_TEXT_BYTES;
}

/** Text that is too long would be there for tare alone, in pieces. */
function lossOf({ key, value }: MetadataEntry, vocabulary: PlannedVocabulary | undefined): Loss[] {
  if (value.type !== "string" || vocabulary?.keys.has(key) === true) return [];
  const { byteLength } = textBytes(value);
  if (byteLength <= MAX_TEXT_BYTES) return [];
  return [{ name: key, reason: `its ${byteLength} bytes exceed the ${MAX_TEXT_BYTES} that a value can have` }];
}
