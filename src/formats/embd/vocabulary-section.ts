import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { FormatError, type Location } from "../../base/errors.ts";
import { checkLimit } from "../../base/limits.ts";
import { ByteWriter } from "../../struct/byte-writer.ts";
import { SPECIAL_BYTES, TOKEN_HEADER_BYTES, VOCABULARY_HEADER_BYTES } from "./layout.ts";
import type { SectionPlace } from "./metadata-section.ts";
import { SPECIAL_TEXTS, settleSpecials } from "./special-tokens.ts";
import { type TokenList, type TokenWalk, walkTokens } from "./token-list.ts";

/** The vocabulary of a file. */
export interface VocabularySection {
  readonly tokens: TokenList;
  /** pad, unk, cls, sep, mask; undefined where neither the file nor its tokens say. */
  readonly special: readonly number[] | undefined;
}

/** How the section was read, for whoever moves it. */
export interface DecodedVocabulary extends VocabularySection {
  /** What special_tokens counts from. */
  readonly base: "file" | "section" | "tokens" | "none";
}

export interface VocabularyPlace extends SectionPlace {
  readonly maxTokens: number;
}

/** Decodes the vocabulary section, wherever its special block lies and whatever its offset counts from. */
export function decodeVocabularySection(bytes: Bytes, place: VocabularyPlace): DecodedVocabulary {
  const { source, offset, tolerance } = place;
  const at = (path: string, position: number): Location => {
    return { source, offset: offset + position, path: `vocabulary.${path}` };
  };
  if (bytes.byteLength < VOCABULARY_HEADER_BYTES) {
    const message = `Cannot read EMBD vocabulary: must have at least ${VOCABULARY_HEADER_BYTES} bytes, found ${bytes.byteLength}`;
    throw new FormatError("format/embd.vocabulary", message, at("token_count", 0));
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const [count, totalSize, pointer] = [view.getUint32(0, true), view.getUint32(4, true), view.getUint32(8, true)];
  const room = bytes.byteLength - VOCABULARY_HEADER_BYTES;
  if (count * TOKEN_HEADER_BYTES > room) {
    const message = `Cannot read EMBD vocabulary: ${count} tokens need at least ${count * TOKEN_HEADER_BYTES} bytes, found ${room}`;
    throw new FormatError("format/embd.vocabulary", message, at("token_count", 0));
  }
  checkLimit(count, place.maxTokens, "EMBD tokens", "limit/embd.tokens", at("token_count", 0));
  const block = locateSpecials(bytes, { count, pointer, offset });
  const { walk } = block;
  if (!("tokens" in walk)) {
    const message = `Cannot read EMBD vocabulary: its ${count} tokens must end inside the section of ${bytes.byteLength} bytes`;
    throw new FormatError("format/embd.vocabulary", message, at("token", walk.failedAt));
  }
  checkTotalSize(totalSize, walk.end - block.start, at("total_size", 4), tolerance);
  const stored = block.position === undefined ? undefined : readSpecials(view, block.position);
  const settled = settleSpecials(walk.tokens, stored, at("special_tokens", block.position ?? 8), tolerance);
  return { tokens: walk.tokens, special: settled, base: block.base };
}

interface SpecialBlock {
  readonly base: DecodedVocabulary["base"];
  /** Of the block, in the section. */
  readonly position: number | undefined;
  /** Of the token entries. */
  readonly start: number;
  readonly walk: TokenWalk | { readonly failedAt: number };
}

interface SectionFields {
  readonly count: number;
  readonly pointer: number;
  readonly offset: number;
}

/**
 * special_tokens counts from the file's beginning by the specification's fourth assumption; readers meet offsets from the
 * section or from the token entries as well. A value can be plausible in two ways, so the one wins that falls exactly on
 * a place where writers put the block: before the entries, or behind them.
 */
function locateSpecials(bytes: Bytes, { count, pointer, offset }: SectionFields): SpecialBlock {
  const before = VOCABULARY_HEADER_BYTES;
  const walk = walkTokens(bytes, before, count);
  const behind = "tokens" in walk ? walk.end : undefined;
  const fits = (position: number): boolean => position >= before && position + SPECIAL_BYTES <= bytes.byteLength;
  const candidates = [
    { base: "file", position: pointer - offset },
    { base: "section", position: pointer },
    { base: "tokens", position: pointer + before },
  ] as const;
  for (const { base, position } of candidates) {
    if (!fits(position)) continue;
    if (position === behind) return { base, position, start: before, walk };
    if (position !== before) continue;
    const start = before + SPECIAL_BYTES;
    const later = walkTokens(bytes, start, count);
    if ("tokens" in later) return { base, position, start, walk: later };
  }
  for (const { base, position } of candidates) {
    if (behind !== undefined && fits(position) && position >= behind) return { base, position, start: before, walk };
  }
  return { base: "none", position: undefined, start: before, walk };
}

function readSpecials(view: DataView<ArrayBuffer>, position: number): number[] {
  return SPECIAL_TEXTS.map((_, i) => view.getUint32(position + 4 * i, true));
}

/** total_size counts the entries alone; some count the header, the special block, or both. */
function checkTotalSize(
  totalSize: number,
  wanted: number,
  at: Location,
  tolerance: VocabularyPlace["tolerance"],
): void {
  if (totalSize === wanted) return;
  const message = `Cannot accept EMBD vocabulary: total_size must be ${wanted}, found ${totalSize}`;
  const error = new FormatError("format/embd.total-size", message, at);
  const extra = totalSize - wanted;
  const isKnown = [VOCABULARY_HEADER_BYTES, SPECIAL_BYTES, VOCABULARY_HEADER_BYTES + SPECIAL_BYTES].includes(extra);
  if (isKnown) tolerance.warn(error);
  else tolerance.refuse(error);
}

/** The section for a place in the file: entries, then the special block, to which the offset from the file's start leads. */
export function encodeVocabularySection(entries: Bytes, ids: VocabularyIds, offset: number): Bytes {
  const writer = new ByteWriter(VOCABULARY_HEADER_BYTES);
  writer.u32(ids.count);
  writer.u32(entries.byteLength);
  writer.u32(offset + VOCABULARY_HEADER_BYTES + entries.byteLength);
  const header = writer.take();
  for (const id of ids.special) writer.u32(id);
  return concatBytes([header, entries, writer.take()]);
}

export interface VocabularyIds {
  readonly count: number;
  readonly special: readonly number[];
}

/** Bytes that a section with such entries takes. */
export function vocabularyBytes(entries: Bytes): number {
  return VOCABULARY_HEADER_BYTES + entries.byteLength + SPECIAL_BYTES;
}
