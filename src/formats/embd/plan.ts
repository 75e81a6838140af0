import type { Bytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import { nearestIsoTime } from "../../base/figures.ts";
import { encodeUtf8, isWellFormed } from "../../base/text.ts";
import { SPECIAL_KEY, TOKENS_KEY } from "../../model/bert/vocabulary.ts";
import type { Loss } from "../../model/finding.ts";
import type { ModelContent, WriteOptions, WritePlan } from "../../model/format.ts";
import {
  type ArrayValue,
  arrayValue,
  Metadata,
  type MetadataEntry,
  type MetadataValue,
  type StringValue,
} from "../../model/metadata.ts";
import { addedEntry, type Holding, packMetadata } from "../../model/origin/metadata.ts";
import {
  type CarriedEntry,
  type CarriedTensor,
  encodeOrigin,
  ORIGIN_KEY,
  type OriginLink,
  splitChain,
} from "../../model/origin/origin.ts";
import type { Piece } from "../../model/pieces.ts";
import { ByteWriter } from "../../struct/cursor.ts";
import { ALIGNMENT, FILE_FLAGS, MAX_TEXT_BYTES } from "./layout.ts";
import { carriedFront, type EmbdFacts, flagsFor, footerBytes, type PlannedFront, parseFacts } from "./origin.ts";
import { type FrontContent, renderFront } from "./spec/front.ts";
import { isOriginPart, missingRequired, splitOrigin, type TextEntry, textBytes } from "./spec/metadata.ts";
import { planTensors, type StoredTensor } from "./spec/tensors.ts";
import {
  NO_TOKEN,
  SPECIAL_TEXTS,
  specialsByText,
  TokenList,
  type VocabularyIds,
  walkTokens,
} from "./spec/vocabulary.ts";

/** A planned write; everything is decided except the checksums. */
export interface EmbdPlan extends WritePlan {
  readonly image: EmbdImage;
}

export interface EmbdImage {
  readonly front: PlannedFront;
  /** The tensor data with the zeros between tensors, `front.dataSize` bytes together. */
  readonly data: readonly Piece[];
  /** "zeros" if checksums are off; the footer exists all the same. */
  readonly footer: "sums" | "zeros" | "none";
}

/** Plans one file of the specification's layout. Pure. */
export function planEmbd(content: ModelContent, options: WriteOptions): EmbdPlan {
  const { own, keep } = splitChain(content.chain, "embd");
  const facts = parseFacts(own);
  const { stored, carried, losses } = planTensors(content.tensors);
  // If there is no other file to go back to, filled-in keys belong to the model from now on.
  const completion = keep.length === 0 ? "own" : "added";
  const vocabulary = planVocabulary(content.metadata, completion, facts.raw);
  const tokenCount = vocabulary.vocabulary?.count;
  const created = createdOf(facts, options);
  const missing = missingRequired({ metadata: vocabulary.metadata, tensors: stored, tokenCount, created });
  const filled = facts.fill === "none" ? [] : missing.filter(({ value }) => isHoldable(value));
  const metadata = planMetadata({
    metadata: completion === "own" ? new Metadata([...filled, ...vocabulary.metadata]) : vocabulary.metadata,
    vocabulary: vocabulary.vocabulary,
    required: completion === "own" ? [] : filled,
    raw: facts.raw,
    chain: keep,
    tensors: carried,
  });
  const flags = flagsFor(alignedFlags(facts.flags, options), vocabulary.vocabulary);
  const wanted: FrontContent = {
    flags,
    entries: metadata.entries,
    vocabulary: vocabulary.vocabulary,
    tensors: stored,
  };
  const front = planFront(wanted, stored, facts, options);
  const image: EmbdImage = { front, data: planData(stored, front), footer: footerOf(facts, flags) };
  const byteLength = front.bytes.byteLength + front.dataSize + front.gapBytes + footerBytes(facts);
  return {
    files: [{ name: options.name, byteLength }],
    primary: options.name,
    losses: [...losses, ...vocabulary.losses, ...metadata.losses],
    notes: [...vocabulary.notes, ...planNotes(carried.length)],
    image,
  };
}

/** The specification's example has whole seconds: "2025-01-16T12:00:00Z". */
function createdOf({ date }: EmbdFacts, { created }: WriteOptions): string | undefined {
  if (date !== undefined) return date === "none" ? undefined : date;
  return created === undefined ? undefined : nearestIsoTime(created).replace(/\.\d+Z$/, "Z");
}

function alignedFlags(flags: number, { align }: WriteOptions): number {
  if (align === undefined) return flags;
  const aligned = Number(FILE_FLAGS.encode(["TENSORS_ALIGNED"]));
  if (align === ALIGNMENT) return flags | aligned;
  if (align === 1) return flags & ~aligned;
  const message = `Cannot align EMBD tensors to ${align} bytes: must be ${ALIGNMENT}, or 1 for none`;
  throw new UsageError("usage/embd.align", message, { source: "plan", path: "align" });
}

/** The front of the original file, if it still describes the content; else our own rendering. */
function planFront(
  wanted: FrontContent,
  stored: readonly StoredTensor[],
  facts: EmbdFacts,
  { name, align }: WriteOptions,
): PlannedFront {
  const names = stored.map((tensor) => tensor.name);
  const isFree = facts.front === undefined || align !== undefined;
  const carried = isFree || facts.front === undefined ? undefined : carriedFront(facts.front, { ...wanted, names });
  return carried ?? { ...renderFront(wanted, name), gapBytes: 0 };
}

/** Tensors in the order of their offsets, with zeros between them and up to the end of the data. */
function planData(stored: readonly StoredTensor[], { dataOffsets, dataSize }: PlannedFront): Piece[] {
  const order = stored.map((_, i) => i).sort((a, b) => (dataOffsets[a] ?? 0) - (dataOffsets[b] ?? 0));
  const pieces: Piece[] = [];
  let position = 0;
  const fill = (to: number): void => {
    if (to > position) pieces.push({ kind: "zeros", byteLength: to - position });
    position = Math.max(position, to);
  };
  for (const i of order) {
    const { tensor, byteLength } = stored[i] as StoredTensor;
    if (byteLength === 0) continue;
    fill(dataOffsets[i] ?? 0);
    pieces.push({ kind: "tensor", tensor });
    position += byteLength;
  }
  fill(dataSize);
  return pieces;
}

function footerOf({ footer }: EmbdFacts, flags: number): EmbdImage["footer"] {
  if (footer === "none") return "none";
  return footer === "sums" || FILE_FLAGS.has(flags, "CHECKSUM_ENABLED") ? "sums" : "zeros";
}

function planNotes(carried: number): string[] {
  if (carried === 0) return [];
  return [`${carried} tensors of types or shapes that EMBD lacks are stored in others; tare.origin says what they are`];
}

interface MetadataContent {
  readonly metadata: Metadata;
  readonly vocabulary: PlannedVocabulary | undefined;
  /** Required keys that the model lacks, and that it must not have when it is converted back. */
  readonly required: readonly TextEntry[];
  /** Keys whose texts were not UTF-8 in an EMBD file, and go into one again as they are. */
  readonly raw: ReadonlySet<string>;
  /** What other formats need to write their files again. */
  readonly chain: readonly OriginLink[];
  readonly tensors: readonly CarriedTensor[];
}

interface MetadataPlan {
  readonly entries: readonly TextEntry[];
  readonly losses: readonly Loss[];
}

/**
 * The entries of the metadata section: required ones first, then the model's own; everything else is in `tare.origin`.
 */
function planMetadata(content: MetadataContent): MetadataPlan {
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

/** A foreign value under our key gives way if we need the key. */
function pack({ metadata, vocabulary, required, raw }: MetadataContent, originKey: "taken" | "free"): Packed {
  const held = vocabulary?.keys ?? new Set<string>();
  const { native, entries } = packMetadata(metadata, (entry) => {
    if (held.has(entry.key)) return vocabularyHolding(entry);
    // The reader shows the section under these keys, so nothing else can be there.
    if (vocabulary !== undefined && (entry.key === TOKENS_KEY || entry.key === SPECIAL_KEY)) return "none";
    if (originKey === "taken" && entry.key === ORIGIN_KEY) return "none";
    // The specification wants UTF-8, and verify calls anything else damage.
    if (entry.value.type === "string" && entry.value.raw !== undefined && !raw.has(entry.key)) return "none";
    return textHolding(entry);
  });
  const added = required.map(({ key, value }) => addedEntry(key, value));
  const isDerived = vocabulary?.specials === "derived" && metadata.get(SPECIAL_KEY) === undefined;
  if (isDerived) added.push(addedEntry(SPECIAL_KEY));
  const texts = native.filter(({ key }) => !held.has(key)) as TextEntry[];
  const isAsRead = entries === undefined && added.length === 0 && isInOrder(metadata, held);
  const carried = isAsRead ? undefined : [...(entries ?? metadata.entries.map(({ key }) => [key] as const)), ...added];
  return { native: texts, carried };
}

/** The reader puts the vocabulary after everything else. */
function isInOrder(metadata: Metadata, held: ReadonlySet<string>): boolean {
  const keys = metadata.entries.map(({ key }) => key);
  const wanted = [...keys.filter((key) => !held.has(key)), ...held];
  return keys.every((key, i) => key === wanted[i]);
}

function vocabularyHolding({ key, value }: MetadataEntry): Holding {
  const type = value.type === "array" ? value.elementType : undefined;
  return type === (key === TOKENS_KEY ? "string" : "u32") ? "native" : "untyped";
}

/** Strings are native; numbers and booleans become readable text; everything else is carried. */
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

/** True for text that fits into a value of the section. */
export function isHoldable(value: StringValue): boolean {
  return (value.raw !== undefined || isWellFormed(value.value)) && textBytes(value).byteLength <= MAX_TEXT_BYTES;
}

/** Text that is too long is stored in pieces that only tare can join. */
function lossOf({ key, value }: MetadataEntry, vocabulary: PlannedVocabulary | undefined): Loss[] {
  if (value.type !== "string" || vocabulary?.keys.has(key) === true) return [];
  const { byteLength } = textBytes(value);
  if (byteLength <= MAX_TEXT_BYTES) return [];
  return [{ name: key, reason: `its ${byteLength} bytes exceed the ${MAX_TEXT_BYTES} that a value can have` }];
}

/** The vocabulary in the form in which it is written. */
interface PlannedVocabulary extends VocabularyIds {
  readonly entries: Bytes;
  /** Keys of the metadata that the section holds. */
  readonly keys: ReadonlySet<string>;
  /** "derived" if the metadata lacks the special ids; they then come from the tokens. */
  readonly specials: "given" | "derived";
}

interface VocabularyPlan {
  readonly vocabulary: PlannedVocabulary | undefined;
  /** Includes the special ids, if they were derived and become the model's own. */
  readonly metadata: Metadata;
  readonly losses: readonly Loss[];
  readonly notes: readonly string[];
}

/**
 * Takes the vocabulary from a model's metadata; other values under its keys stay metadata. Missing special ids come
 * from the tokens. They are "own" from then on, or only "added" for this file. Tokens that are not UTF-8 are carried like
 * other texts, unless they come from an EMBD file (`raw`).
 */
function planVocabulary(metadata: Metadata, completion: "own" | "added", raw: ReadonlySet<string>): VocabularyPlan {
  const nothing: VocabularyPlan = { vocabulary: undefined, metadata, losses: [], notes: [] };
  const value = metadata.get(TOKENS_KEY);
  if (value?.type !== "array") return nothing;
  if (!raw.has(TOKENS_KEY) && !isUtf8(value)) return { ...nothing, notes: [RAW_TOKENS] };
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

const RAW_TOKENS = "The vocabulary has tokens that are not UTF-8: tare.origin carries it, and other readers find none";

function isUtf8(tokens: ArrayValue): boolean {
  if (tokens instanceof TokenList) return tokens.isUtf8();
  return tokens.slice().every((token) => token.type !== "string" || token.raw === undefined);
}

/** Token entries; undefined if an element is not text that a file can hold. */
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

/** Five ids of 32 bits; undefined for any other value. */
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
