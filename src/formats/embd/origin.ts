import { type Bytes, equalBytes } from "../../base/bytes.ts";
import { isTareError } from "../../base/errors.ts";
import { decodeBase64, encodeBase64, encodeUtf8 } from "../../base/text.ts";
import { atOnce } from "../../base/turns.ts";
import { TOKENS_KEY } from "../../model/bert/vocabulary.ts";
import { equalShapes } from "../../model/dtype.ts";
import { Metadata, type MetadataEntry } from "../../model/metadata.ts";
import { type CarriedEntry, type Json, ORIGIN_KEY, type OriginFacts, takeOrigin } from "../../model/origin/origin.ts";
import { ALIGNMENT, FILE_FLAGS, fileFooter, fileHeader } from "./layout.ts";
import { embdLimits, Tolerance } from "./limits.ts";
import type { EmbdModel, SpecContent, SpecDetails } from "./model.ts";
import { type FrontContent, type RenderedFront, renderFront, sliceFront } from "./spec/front.ts";
import { decodeHeader } from "./spec/header.ts";
import { missingRequired, sameEntries } from "./spec/metadata.ts";
import { decodeContent } from "./spec/read.ts";

/** A longer front is not carried: the copy would be longer than all metadata of most models. */
const MAX_CARRIED_FRONT = 16 << 20;

/** A date has twenty characters; an edited origin may have any text in its place. */
const MAX_DATE = 64;

/** More zeros than alignment explains are not written again: an edited origin must not request terabytes of them. */
const MAX_PADDING = 64 << 10;

/** Facts as the planner uses them; invalid ones are left out. */
export interface EmbdFacts {
  /** Flags of the header, without the bits that follow from the content. */
  readonly flags: number;
  /** "none" if the file lacks keys that the specification requires; then the writer does not add them. */
  readonly fill: "all" | "none";
  /** The date of the file, so that it does not change on the way back; "none" if it has none: not every input has one. */
  readonly date: string | undefined;
  /**
   * What follows the data: "none" for a file without footer, "sums" for one with checksums but without the flag for
   * them.
   */
  readonly footer: "standard" | "none" | "sums";
  /** Keys whose texts are not UTF-8 in the file. Those of other formats are carried, because EMBD wants UTF-8. */
  readonly raw: ReadonlySet<string>;
  /** Everything before the data, if our own rendering differs. */
  readonly front: Bytes | undefined;
}

/** The default flags of a writer. */
const DEFAULT_FLAGS = Number(FILE_FLAGS.encode(["TENSORS_ALIGNED", "CHECKSUM_ENABLED"]));
const VOCAB_EMBEDDED = Number(FILE_FLAGS.encode(["VOCAB_EMBEDDED"]));
const DERIVED = Number(FILE_FLAGS.encode(["VOCAB_EMBEDDED", "COMPRESSED"]));

/** The flags of a file for the chosen bits, with a vocabulary or without. */
export function flagsFor(chosen: number, vocabulary: unknown): number {
  return ((chosen & ~DERIVED) | (vocabulary === undefined ? 0 : VOCAB_EMBEDDED)) >>> 0;
}

/** What `planEmbd` needs to write exactly this file again. Files of the other layouts are never written. */
export function describeEmbd(model: EmbdModel): OriginFacts {
  const { details } = model;
  if (details.layout !== "spec") return { layout: details.layout };
  const { header, entries, vocabulary, index, footer, front } = details;
  const facts: { [key: string]: Json } = {};
  if (header.flags !== flagsFor(DEFAULT_FLAGS, vocabulary)) facts["flags"] = header.flags;
  const raw = rawKeys(details);
  if (raw.length > 0) facts["raw"] = raw;
  const known = new Metadata([...entries, ...carriedKeys(model)]);
  const content = { metadata: known, tensors: index, tokenCount: vocabulary?.tokens.length };
  if (missingRequired(content).length > 0) facts["fill"] = "none";
  else facts["date"] = content.metadata.text("created_at") ?? "none";
  if (footer === "absent") facts["footer"] = "none";
  else if (footer !== "unread" && !FILE_FLAGS.has(header.flags, "CHECKSUM_ENABLED")) {
    if (footer.dataChecksum !== 0 || footer.fileChecksum !== 0) facts["footer"] = "sums";
  }
  const isCarried = front !== undefined && front.byteLength <= MAX_CARRIED_FRONT && !rendersAlike(details, front);
  if (isCarried) facts["front"] = encodeBase64(front);
  return facts;
}

/** Keys of texts that are not UTF-8, and that of the tokens if one of them is not. */
function rawKeys({ entries, vocabulary }: SpecDetails): string[] {
  const keys = entries.filter(({ value }) => value.raw !== undefined).map(({ key }) => key);
  return vocabulary?.tokens.isUtf8() === false ? [...keys, TOKENS_KEY] : keys;
}

/** Keys of the model whose values only `tare.origin` holds: the writer did not fill them in. */
function carriedKeys({ metadata }: EmbdModel): MetadataEntry[] {
  const carried = takeOrigin(metadata).origin?.entries ?? [];
  const isHeld = ([, , encoding, data]: CarriedEntry): boolean => encoding !== undefined && data !== undefined;
  return carried.filter(isHeld).map(([key]) => ({ key, value: { type: "null" } }));
}

/**
 * True if `planEmbd` gives these facts by itself, or for options: alignment is one. Of a layout that is never written,
 * nothing could come back.
 */
export function isUsualEmbd(facts: OriginFacts): boolean {
  const aligned = Number(FILE_FLAGS.encode(["TENSORS_ALIGNED"]));
  return Object.entries(facts).every(([name, value]) => {
    if (name === "flags") return typeof value === "number" && ((value ^ DEFAULT_FLAGS) & ~(aligned | DERIVED)) === 0;
    // Our own writer takes the date of its input.
    return name === "layout" || name === "date";
  });
}

/** True if our own rendering of the file's content equals the file. */
function rendersAlike({ header, entries, vocabulary, index }: SpecDetails, front: Bytes): boolean {
  const tokens = vocabulary?.tokens.encodeEntries();
  const special = vocabulary?.special;
  if (vocabulary !== undefined && (tokens === undefined || special === undefined)) return false;
  const held = tokens === undefined || special === undefined ? undefined : { entries: tokens, special };
  const rendered = renderFront(
    {
      flags: header.flags,
      entries,
      vocabulary: held === undefined ? undefined : { ...held, count: vocabulary?.tokens.length ?? 0 },
      tensors: index.map((entry) => ({ ...entry, nameBytes: encodeUtf8(entry.name) })),
    },
    ORIGIN_KEY,
  );
  return equalBytes(rendered.bytes, front);
}

/** Reads facts that may have been edited. Undefined facts mean that the model was never in such a file. */
export function parseFacts(facts: OriginFacts | undefined): EmbdFacts {
  const { flags, fill, date, footer, raw, front } = facts ?? {};
  const bytes = typeof front === "string" ? decodeBase64(front) : undefined;
  const isFlags = typeof flags === "number" && Number.isSafeInteger(flags) && flags >= 0 && flags <= 0xffff_ffff;
  return {
    flags: isFlags ? flags : DEFAULT_FLAGS,
    fill: fill === "none" ? "none" : "all",
    date: typeof date === "string" && date.length <= MAX_DATE ? date : undefined,
    footer: footer === "none" || footer === "sums" ? footer : "standard",
    raw: new Set(Array.isArray(raw) ? (raw as readonly Json[]).filter((key) => typeof key === "string") : []),
    front: bytes !== undefined && bytes.byteLength >= fileHeader.byteLength ? bytes : undefined,
  };
}

/** A front to write, and the length of the gap between the data and the footer. */
export interface PlannedFront extends RenderedFront {
  readonly gapBytes: number;
}

/** The carried front, if it still describes exactly what is written. */
export function carriedFront(
  front: Bytes,
  wanted: FrontContent & { readonly names: readonly string[] },
): PlannedFront | undefined {
  try {
    const tolerance = new Tolerance();
    const context = { source: ORIGIN_KEY, limits: embdLimits({}), tolerance };
    const { totalFileSize } = fileHeader.decode(front, { source: ORIGIN_KEY });
    const spec = decodeHeader(front, { ...context, byteLength: totalFileSize });
    const { header, dataEnd, footerOffset } = spec;
    if (header.tensorDataOffset !== front.byteLength) return undefined;
    const content = atOnce(decodeContent(sliceFront(front, spec), spec, context));
    if (!saysTheSame(content, wanted)) return undefined;
    const tensorBytes = content.index.reduce((sum, tensor) => sum + tensor.byteLength, 0);
    const paddingBytes = (footerOffset ?? dataEnd) - header.tensorDataOffset - tensorBytes;
    if (paddingBytes > MAX_PADDING + ALIGNMENT * content.index.length) return undefined;
    return {
      bytes: front,
      dataOffsets: content.index.map(({ dataOffset }) => dataOffset),
      dataSize: header.tensorDataSize,
      gapBytes: (footerOffset ?? dataEnd) - dataEnd,
    };
  } catch (error) {
    if (isTareError(error)) return undefined; // a damaged origin
    throw error;
  }
}

function saysTheSame(content: SpecContent, wanted: FrontContent & { readonly names: readonly string[] }): boolean {
  const { entries, vocabulary, index } = content;
  if (!sameEntries(entries, wanted.entries) || index.length !== wanted.tensors.length) return false;
  if ((vocabulary === undefined) !== (wanted.vocabulary === undefined)) return false;
  if (vocabulary !== undefined && wanted.vocabulary !== undefined) {
    const tokens = vocabulary.tokens.encodeEntries();
    const { special, entries: wantedTokens, count } = wanted.vocabulary;
    const sameIds = vocabulary.tokens.length === count && special.every((id, i) => id === vocabulary.special?.[i]);
    if (!sameIds || tokens === undefined || !equalBytes(tokens, wantedTokens)) return false;
  }
  // Tensors that share their bytes in the file may no longer be equal in the model.
  const places = index.filter(({ byteLength }) => byteLength > 0).map(({ dataOffset }) => dataOffset);
  if (new Set(places).size !== places.length) return false;
  return index.every(({ name, dtype, shape }, i) => {
    const tensor = wanted.tensors[i];
    return name === wanted.names[i] && dtype === tensor?.dtype && equalShapes(shape, tensor.shape);
  });
}

/** Bytes of the footer, if there is one. */
export function footerBytes({ footer }: Pick<EmbdFacts, "footer">): number {
  return footer === "none" ? 0 : fileFooter.byteLength;
}
