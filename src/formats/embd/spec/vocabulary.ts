import { type Bytes, concatBytes } from "../../../base/bytes.ts";
import { FormatError, type Location } from "../../../base/errors.ts";
import { checkLimit } from "../../../base/limits.ts";
import { decodeUtf8 } from "../../../base/text.ts";
import { SPECIAL_KEY, TOKENS_KEY } from "../../../model/bert/vocabulary.ts";
import {
  type ArrayValue,
  arrayValue,
  type EncodedValue,
  type MetadataEntry,
  type MetadataValue,
} from "../../../model/metadata.ts";
import { ByteWriter } from "../../../struct/cursor.ts";
import { MAX_TEXT_BYTES, SPECIAL_BYTES, TOKEN_HEADER_BYTES, VOCABULARY_HEADER_BYTES } from "../layout.ts";
import type { Tolerance } from "../limits.ts";
import { type SectionPlace, textValue } from "./metadata.ts";

/** The vocabulary of a file. */
export interface VocabularySection {
  readonly tokens: TokenList;
  /** pad, unk, cls, sep, mask; undefined if neither the file nor its tokens show them. */
  readonly special: readonly number[] | undefined;
}

/** How the section was read, for code that moves it. */
export interface DecodedVocabulary extends VocabularySection {
  /** What special_tokens counts from. */
  readonly base: "file" | "section" | "tokens" | "none";
}

interface VocabularyPlace extends SectionPlace {
  readonly maxTokens: number;
}

/** Decodes the vocabulary section, wherever its special block is and whatever its offset counts from. */
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
  /** Offset of the block in the section. */
  readonly position: number | undefined;
  /** Offset of the token entries. */
  readonly start: number;
  readonly walk: TokenWalk | { readonly failedAt: number };
}

interface SectionFields {
  readonly count: number;
  readonly pointer: number;
  readonly offset: number;
}

/**
 * By the specification's fourth assumption, special_tokens counts from the beginning of the file. Files with offsets
 * from the section or from the token entries exist as well. A value can be plausible in two ways, so we prefer the one
 * that is exactly at a place where writers put the block: before or after the entries.
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

/** total_size counts only the entries; some writers also count the header, the special block, or both. */
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

/** The section at an offset of the file: entries, then the special block, whose offset counts from the file's start. */
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

/** The length of a section with these entries. */
export function vocabularyBytes(entries: Bytes): number {
  return VOCABULARY_HEADER_BYTES + entries.byteLength + SPECIAL_BYTES;
}

/** The tokens in the order of the special block. */
export const SPECIAL_TEXTS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] as const;
/** The id in a block for a token that the vocabulary does not have. */
export const NO_TOKEN = 0xffff_ffff;

/**
 * The five ids of a file. If a token with the special name has another id than the block states, the name wins and a
 * warning reports the block. A vocabulary with other spellings is left alone.
 */
function settleSpecials(
  tokens: TokenList,
  stored: readonly number[] | undefined,
  at: Location,
  tolerance: Tolerance,
): readonly number[] | undefined {
  if (stored === undefined) {
    const message =
      "The special token indices must lie inside the vocabulary section: the ids are taken from the tokens";
    tolerance.warn(new FormatError("format/embd.special-tokens", message, at));
    return specialsByText(tokens);
  }
  return stored.map((id, i) => {
    const text = SPECIAL_TEXTS[i] as string;
    if (id < tokens.length && tokens.text(id) === text) return id;
    const found = tokens.find(text);
    if (found === undefined && id < tokens.length) return id;
    if (found === undefined && id === NO_TOKEN) return id;
    const problem = `The id of ${text} must be ${found ?? `< ${tokens.length}`}, found ${id}`;
    tolerance.warn(new FormatError("format/embd.special-tokens", problem, { ...at, offset: (at.offset ?? 0) + 4 * i }));
    return found ?? id;
  });
}

/**
 * The ids by the spelling of the tokens; undefined if [UNK], [CLS] or [SEP] is missing, because nothing can be embedded
 * without them. Other missing ones get the id of [UNK].
 */
export function specialsByText(tokens: TokenList): readonly number[] | undefined {
  const ids = SPECIAL_TEXTS.map((text) => tokens.find(text));
  const [, unk, cls, sep] = ids;
  if (unk === undefined || cls === undefined || sep === undefined) return undefined;
  return ids.map((id) => id ?? unk);
}

/** The encoding name of a vocabulary in `tare.origin`: u32 count, then token entries as in the section. */
const ENCODING = "embd";
const COUNT_BYTES = 4;

/** Tokens by id, decoded only on demand: the bytes stay as in the file. */
export class TokenList implements ArrayValue {
  readonly type = "array";
  readonly elementType = "string";
  readonly length: number;
  readonly #bytes: Bytes;
  readonly #starts: Uint32Array<ArrayBuffer>;
  readonly #lengths: Uint32Array<ArrayBuffer>;

  /** `starts` and `lengths` must lie inside `bytes`. */
  constructor(bytes: Bytes, starts: Uint32Array<ArrayBuffer>, lengths: Uint32Array<ArrayBuffer>) {
    this.length = starts.length;
    this.#bytes = bytes;
    this.#starts = starts;
    this.#lengths = lengths;
  }

  slice(start = 0, end: number = this.length): MetadataValue[] {
    const [from, to] = [bound(start, this.length), bound(end, this.length)];
    const tokens: MetadataValue[] = [];
    for (let id = from; id < to; id++) tokens.push(textValue(this.bytes(id)));
    return tokens;
  }

  /** The stored bytes of one token. */
  bytes(id: number): Bytes {
    const start = this.#starts[id] ?? 0;
    return this.#bytes.subarray(start, start + (this.#lengths[id] ?? 0));
  }

  /** Undefined if the bytes are not UTF-8. */
  text(id: number): string | undefined {
    return decodeUtf8(this.bytes(id));
  }

  /** False if a token is not UTF-8. */
  isUtf8(): boolean {
    for (let id = 0; id < this.length; id++) if (this.text(id) === undefined) return false;
    return true;
  }

  /** The id of a token, the last one if several are equal; undefined if there is none. */
  find(token: string): number | undefined {
    for (let id = this.length - 1; id >= 0; id--) {
      // A code unit takes at most three bytes, and most tokens already differ in length.
      const byteLength = this.#lengths[id] as number;
      if (byteLength >= token.length && byteLength <= 3 * token.length && this.text(id) === token) return id;
    }
    return undefined;
  }

  /** Undefined if a token is too long for the section's 16-bit lengths. */
  get encoded(): EncodedValue | undefined {
    const entries = this.encodeEntries();
    if (entries === undefined) return undefined;
    const writer = new ByteWriter(COUNT_BYTES + entries.byteLength);
    writer.u32(this.length);
    writer.bytes(entries);
    return { encoding: ENCODING, bytes: writer.take() };
  }

  /** Token entries as in the vocabulary section; undefined if a token is too long. */
  encodeEntries(): Bytes | undefined {
    let total = 0;
    for (const length of this.#lengths) {
      if (length > MAX_TEXT_BYTES) return undefined;
      total += TOKEN_HEADER_BYTES + length;
    }
    const writer = new ByteWriter(total);
    for (let id = 0; id < this.length; id++) {
      const token = this.bytes(id);
      writer.u16(token.byteLength);
      writer.bytes(token);
    }
    return writer.take();
  }
}

function bound(index: number, length: number): number {
  return Math.min(Math.max(index < 0 ? index + length : index, 0), length);
}

/** The result of a walk over token entries. */
interface TokenWalk {
  readonly tokens: TokenList;
  /** End of the last entry, in `bytes`. */
  readonly end: number;
}

/** Walks over `count` entries of 16-bit length and text; gives the position of the failure if one exceeds the end. */
export function walkTokens(bytes: Bytes, start: number, count: number): TokenWalk | { readonly failedAt: number } {
  if (count * TOKEN_HEADER_BYTES > bytes.byteLength - start) return { failedAt: start };
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const starts = new Uint32Array(count);
  const lengths = new Uint32Array(count);
  let position = start;
  for (let id = 0; id < count; id++) {
    if (position + TOKEN_HEADER_BYTES > bytes.byteLength) return { failedAt: position };
    const length = view.getUint16(position, true);
    const end = position + TOKEN_HEADER_BYTES + length;
    if (end > bytes.byteLength) return { failedAt: position };
    starts[id] = position + TOKEN_HEADER_BYTES;
    lengths[id] = length;
    position = end;
  }
  return { tokens: new TokenList(bytes, starts, lengths), end: position };
}

/** Decodes a vocabulary that `tare.origin` carried; undefined if it has another encoding or is damaged. */
export function decodeTokens({ encoding, bytes }: EncodedValue): MetadataValue | undefined {
  if (encoding !== ENCODING || bytes.byteLength < COUNT_BYTES) return undefined;
  const count = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const walk = walkTokens(bytes, COUNT_BYTES, count);
  return "tokens" in walk && walk.end === bytes.byteLength ? (walk.tokens as MetadataValue) : undefined;
}

/** A vocabulary as entries of a model's metadata: the tokens, and the ids of the special ones if they are known. */
export function vocabularyMetadata({ tokens, special }: VocabularySection): MetadataEntry[] {
  const entries: MetadataEntry[] = [{ key: TOKENS_KEY, value: tokens as MetadataValue }];
  if (special === undefined) return entries;
  const ids = special.map((value): MetadataValue => ({ type: "u32", value }));
  return [...entries, { key: SPECIAL_KEY, value: arrayValue(ids, "u32") }];
}
