import { type Bytes, equalBytes } from "../../base/bytes.ts";
import { isTareError } from "../../base/errors.ts";
import { decodeBase64, encodeBase64, encodeUtf8 } from "../../base/text.ts";
import { atOnce } from "../../base/turns.ts";
import { Metadata } from "../../model/metadata.ts";
import { type Json, ORIGIN_KEY, type OriginFacts } from "../../model/origin.ts";
import { equalShapes } from "../../model/shape.ts";
import { ALIGNMENT, FILE_FLAGS, fileFooter, fileHeader } from "./layout.ts";
import { embdLimits, Tolerance } from "./limits.ts";
import type { EmbdModel } from "./model.ts";
import { type FrontContent, type RenderedFront, renderFront, sliceFront } from "./spec/front.ts";
import { decodeHeader } from "./spec/header.ts";
import { missingRequired, sameEntries } from "./spec/metadata.ts";
import { decodeContent, type SpecContent, type SpecDetails } from "./spec/read.ts";

/** A front beyond this is not carried: the copy would be longer than most models' metadata altogether. */
const MAX_CARRIED_FRONT = 16 << 20;

/** More zeros than alignment explains are not written again: an edited origin must not ask for terabytes of them. */
const MAX_PADDING = 64 << 10;

/** Facts as the planner uses them; whatever is not what it should be is left out. */
export interface EmbdFacts {
  /** Of the header, but for the bits that follow from the content. */
  readonly flags: number;
  /** "none" where the file lacks keys that the specification requires: they are not made up then. */
  readonly fill: "all" | "none";
  /** What stands behind the data: "none" for a file without footer, "sums" for one with sums that no flag announces. */
  readonly footer: "standard" | "none" | "sums";
  /** Everything before the data, where our own rendering differs. */
  readonly front: Bytes | undefined;
}

/** What a writer does about flags without being told. */
export const DEFAULT_FLAGS = Number(FILE_FLAGS.encode(["TENSORS_ALIGNED", "CHECKSUM_ENABLED"]));
const VOCAB_EMBEDDED = Number(FILE_FLAGS.encode(["VOCAB_EMBEDDED"]));
const DERIVED = Number(FILE_FLAGS.encode(["VOCAB_EMBEDDED", "COMPRESSED"]));

/** The flags of a file with such a choice, with a vocabulary or without. */
export function flagsFor(chosen: number, vocabulary: unknown): number {
  return ((chosen & ~DERIVED) | (vocabulary === undefined ? 0 : VOCAB_EMBEDDED)) >>> 0;
}

/** What `planEmbd` needs to write this very file again; files of the other layouts are not written. */
export function describeEmbd(model: EmbdModel): OriginFacts {
  const { details } = model;
  if (details.layout !== "spec") return { layout: details.layout };
  const { header, entries, vocabulary, index, footer, front } = details;
  const facts: { [key: string]: Json } = {};
  if (header.flags !== flagsFor(DEFAULT_FLAGS, vocabulary)) facts["flags"] = header.flags;
  const content = { metadata: new Metadata(entries), tensors: index, tokenCount: vocabulary?.tokens.length };
  if (missingRequired(content).length > 0) facts["fill"] = "none";
  if (footer === "absent") facts["footer"] = "none";
  else if (footer !== "unread" && !FILE_FLAGS.has(header.flags, "CHECKSUM_ENABLED")) {
    if (footer.dataChecksum !== 0 || footer.fileChecksum !== 0) facts["footer"] = "sums";
  }
  const isCarried = front !== undefined && front.byteLength <= MAX_CARRIED_FRONT && !rendersAlike(details, front);
  if (isCarried) facts["front"] = encodeBase64(front);
  return facts;
}

/** True where our own rendering of what the file says is the file's. */
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

/** Reads facts that somebody may have edited; undefined ones are those of a model that was never in such a file. */
export function parseFacts(facts: OriginFacts | undefined): EmbdFacts {
  const { flags, fill, footer, front } = facts ?? {};
  const bytes = typeof front === "string" ? decodeBase64(front) : undefined;
  const isFlags = typeof flags === "number" && Number.isSafeInteger(flags) && flags >= 0 && flags <= 0xffff_ffff;
  return {
    flags: isFlags ? flags : DEFAULT_FLAGS,
    fill: fill === "none" ? "none" : "all",
    footer: footer === "none" || footer === "sums" ? footer : "standard",
    front: bytes !== undefined && bytes.byteLength >= fileHeader.byteLength ? bytes : undefined,
  };
}

/** A front to be written, with what stands between the data and the footer. */
export interface PlannedFront extends RenderedFront {
  readonly gapBytes: number;
}

/** The carried front, where it still says exactly what is to be written. */
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
    if (isTareError(error)) return undefined; // an origin that somebody damaged
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
  // Tensors that share their bytes in the file need not be equal in the model any more.
  const places = index.filter(({ byteLength }) => byteLength > 0).map(({ dataOffset }) => dataOffset);
  if (new Set(places).size !== places.length) return false;
  return index.every(({ name, dtype, shape }, i) => {
    const tensor = wanted.tensors[i];
    return name === wanted.names[i] && dtype === tensor?.dtype && equalShapes(shape, tensor.shape);
  });
}

/** Bytes of the footer, where there is one. */
export function footerBytes({ footer }: Pick<EmbdFacts, "footer">): number {
  return footer === "none" ? 0 : fileFooter.byteLength;
}
