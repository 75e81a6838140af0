import { type Bytes, startsWith } from "../../base/bytes.ts";
import { UnsupportedError } from "../../base/errors.ts";
import { OPENING_BYTES } from "../../bytes/layers/opening-read.ts";
import type { Source } from "../../bytes/source.ts";
import type { FormatReader, Head, OpenContext, SniffResult } from "../../model/format.ts";
import { openAdr } from "./adr.ts";
import { MAGIC } from "./index.ts";
import { embdFields, embdSections } from "./inspect.ts";
import { detectLayout, type EmbdLayout, fileFooter, fileHeader } from "./layout.ts";
import { EMBD_LIMITS, type Leniency, Tolerance } from "./limits.ts";
import { type EmbdModel, embdModel, type Orientation } from "./model.ts";
import { describeEmbd, isUsualEmbd } from "./origin.ts";
import { tooShort } from "./spec/header.ts";
import { openSpec } from "./spec/read.ts";
import { decodeTokens } from "./spec/vocabulary.ts";
import { openStream } from "./stream.ts";

/** What a caller may know better than the file. */
export interface OpenEmbdOptions {
  /** Opens the file as this layout, regardless of its content: the only way to open a stream without tensors. */
  readonly layout?: EmbdLayout | undefined;
  /** How a stream stores linear weights, if its shapes do not tell. */
  readonly orientation?: Orientation | undefined;
  /** "lenient" also opens files with wrong totals, a wrong header checksum, and duplicate names. */
  readonly leniency?: Leniency | undefined;
}

/** Opens a file of any of the three layouts. Reads no tensor data. */
export async function openEmbd(
  source: Source,
  context: OpenContext,
  options: OpenEmbdOptions = {},
): Promise<EmbdModel> {
  const opening = await source.read(0, Math.min(source.byteLength, OPENING_BYTES), { signal: context.signal });
  const tolerance = new Tolerance(options.leniency);
  const layout = options.layout ?? (await chooseLayout(source, opening, context, tolerance));
  switch (layout) {
    case "spec":
      return openSpec(source, opening, context, tolerance);
    case "stream":
      return openStream(source, opening, context, { tolerance, orientation: options.orientation });
    case "adr":
      return openAdr(source, opening, context, tolerance);
  }
}

async function chooseLayout(
  source: Source,
  opening: Bytes,
  { signal }: OpenContext,
  { leniency }: Tolerance,
): Promise<EmbdLayout> {
  const { byteLength, label } = source;
  let detection = detectLayout({ bytes: opening, byteLength });
  const isWhole = opening.byteLength === byteLength;
  if (
    !isWhole &&
    detection?.layout === "spec" &&
    detectLayout({ bytes: opening, byteLength, tail: NO_TAIL })?.layout !== "spec"
  ) {
    // So far only the total indicates it; the end magic decides.
    const tail = await source.read(byteLength - fileFooter.byteLength, fileFooter.byteLength, { signal });
    detection = detectLayout({ bytes: opening, byteLength, tail });
  }
  // The reader of the specification's layout refuses a damaged file, because it can tell what is wrong.
  const isAcceptable = detection?.certainty === "certain" || detection?.layout === "spec" || leniency === "lenient";
  if (detection !== undefined && isAcceptable) return detection.layout;
  if (byteLength < fileHeader.byteLength && startsWith(opening, MAGIC)) throw tooShort(label, byteLength);
  const message = "Cannot read EMBD file: its content matches none of the three layouts that begin so";
  throw new UnsupportedError(
    "unsupported/embd.layout",
    message,
    { source: label, offset: 0 },
    { hint: "Other programs use the same four letters; a damaged header looks like this, too" },
  );
}

/** Tells whether a file with this beginning has one of the layouts; for `embd.sniff`. */
export function sniffLayout({ bytes, byteLength }: Head): SniffResult {
  const detection = detectLayout({ bytes, byteLength });
  if (detection?.certainty === "certain") return "yes";
  return detection !== undefined || startsWith(bytes, MAGIC) ? "possible" : "no";
}

const NO_TAIL: Bytes = new Uint8Array(fileFooter.byteLength);

/** EMBD .weights: the specification's layout, and the two others that begin with the same eight bytes. */
export const reader: FormatReader = {
  limits: EMBD_LIMITS,
  open: (source, context) => openEmbd(source, context),
  sections: (container) => embdSections(embdModel(container)),
  fields: async (container, range) => embdFields(embdModel(container), range),
  describe: (container) => describeEmbd(embdModel(container)),
  isUsual: isUsualEmbd,
  decodeValue: decodeTokens,
  checksums: "whole file",
};
