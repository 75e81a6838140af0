import type { Bytes } from "../../base/bytes.ts";
import { type Extent, findGaps } from "../../bytes/extents.ts";
import { type Finding, findingFromError } from "../../model/finding.ts";
import type { FormatVerifier, VerifyContext } from "../../model/format.ts";
import type { EmbdModel } from "./embd-model.ts";
import { embdModel } from "./embd-model.ts";
import { decodeFooter, footerProblems, joinSums, type RunSums, sumProblems } from "./footer.ts";
import { FILE_FLAGS, fileFooter } from "./layout.ts";
import { lintMetadata, lintVocabulary } from "./lint.ts";
import type { SpecDetails } from "./open-spec.ts";
import { specOccupied } from "./sections.ts";

/** What opening lives with and the specification forbids: an error for whoever asks. */
const FORBIDDEN: ReadonlySet<string> = new Set([
  "format/embd.name-hash",
  "format/embd.trailing-bytes",
  "format/embd.utf8",
  "format/embd.no-footer",
  "format/embd.footer",
  "format/embd.truncated",
  "format/embd.duplicate-name",
  "format/embd.duplicate-key",
  "integrity/embd.header-checksum",
]);

/** What opening did not check: checksums, padding, what vocabulary, metadata and tensors say of each other. */
export async function* verifyEmbd(model: EmbdModel, context: VerifyContext): AsyncGenerator<Finding> {
  const { details } = model;
  context.count("tensors", model.tensors.length);
  for (const warning of model.warnings) if (FORBIDDEN.has(warning.code)) yield { ...warning, severity: "error" };
  if (details.layout !== "adr" && details.vocabulary !== undefined) {
    context.count("tokens", details.vocabulary.tokens.length);
    yield* lintVocabulary(model, details.vocabulary.tokens);
  }
  if (details.layout !== "spec") return;
  yield* lintMetadata(model, details);
  yield* verifySums(model, details, context);
}

async function* verifySums(model: EmbdModel, details: SpecDetails, context: VerifyContext): AsyncGenerator<Finding> {
  const { source, footerOffset } = details;
  const { label } = source;
  const bytes = await readFooterBytes(details, context);
  const footer = bytes === undefined ? undefined : decodeFooter(bytes, details, label);
  if (footer !== undefined && details.footer === "unread") {
    for (const problem of footerProblems(footer, details, label)) {
      const severity = FORBIDDEN.has(problem.code) ? "error" : "warning";
      yield findingFromError(problem, severity);
    }
  }
  if (context.level !== "full") {
    if (context.level === "control") yield noControlDigest(label, footerOffset);
    return;
  }
  const scan = await scanFile(details, context);
  if (footer !== undefined) {
    const severity = FILE_FLAGS.has(details.header.flags, "CHECKSUM_ENABLED") ? "error" : "warning";
    const sums = { data: scan.data, file: joinSums(scan, details) };
    const told = new Set(severity === "warning" ? model.warnings.map(({ code }) => code) : []);
    for (const problem of sumProblems(footer, sums, details, label)) {
      // Opening a small file has told it already, as a warning.
      if (!told.has(problem.code)) yield findingFromError(problem, severity);
    }
  }
  if (scan.paddingAt !== undefined) yield strangePadding(label, scan.paddingAt);
}

async function readFooterBytes(
  { source, footerOffset }: SpecDetails,
  context: VerifyContext,
): Promise<Bytes | undefined> {
  if (footerOffset === undefined) return undefined;
  return source.read(footerOffset, fileFooter.byteLength, { signal: context.signal });
}

function noControlDigest(source: string, offset = 0): Finding {
  return {
    severity: "note",
    code: "integrity/embd.no-control-digest",
    message: "Metadata, vocabulary and index have no checksum of their own: that of the footer covers the whole file",
    at: { source, offset, path: "footer.file_checksum" },
    hint: "Check everything with: tare verify --full",
  };
}

function strangePadding(source: string, offset: number): Finding {
  return {
    severity: "warning",
    code: "format/embd.padding",
    message: `Padding must be zeros, found another byte at ${offset}`,
    at: { source, offset, path: "padding" },
  };
}

interface Scan extends RunSums {
  /** Of the first byte between sections and tensors that is not zero. */
  readonly paddingAt: number | undefined;
}

/** One pass over everything before the footer, cut where the tensor data begins and ends. */
async function scanFile(details: SpecDetails, context: VerifyContext): Promise<Scan> {
  const { source, header, dataEnd, footerOffset, end } = details;
  const { tensorDataOffset } = header;
  const byteLength = footerOffset ?? end;
  const padding = new PaddingCheck(findGaps(specOccupied(details), byteLength));
  const sums = { before: 0, data: 0, after: 0 };
  let position = 0;
  for await (const piece of source.stream(0, { byteLength, signal: context.signal })) {
    for (const [run, from, to] of [
      ["before", 0, tensorDataOffset],
      ["data", tensorDataOffset, dataEnd],
      ["after", dataEnd, byteLength],
    ] as const) {
      const start = Math.max(from - position, 0);
      const stop = Math.min(to - position, piece.byteLength);
      if (start < stop) sums[run] = await context.engine.crc32(piece.subarray(start, stop), sums[run]);
    }
    padding.look(piece, position);
    position += piece.byteLength;
    context.count("bytes", piece.byteLength);
    context.onProgress?.(piece.byteLength);
  }
  return { ...sums, paddingAt: padding.strangeAt };
}

/** Looks for the first byte in the gaps that is not zero, piece by piece. */
class PaddingCheck {
  readonly #gaps: readonly Extent[];
  #next = 0;
  strangeAt: number | undefined;

  constructor(gaps: readonly Extent[]) {
    this.#gaps = gaps;
  }

  look(piece: Bytes, position: number): void {
    const end = position + piece.byteLength;
    for (; this.strangeAt === undefined && this.#next < this.#gaps.length; this.#next++) {
      const gap = this.#gaps[this.#next] as Extent;
      if (gap.offset >= end) return;
      const from = Math.max(gap.offset, position);
      const to = Math.min(gap.offset + gap.byteLength, end);
      const strange = piece.subarray(from - position, to - position).findIndex((byte) => byte !== 0);
      if (strange >= 0) this.strangeAt = from + strange;
      if (gap.offset + gap.byteLength > end) return;
    }
  }
}

export const verifier: FormatVerifier = {
  verify: (container, context) => verifyEmbd(embdModel(container), context),
};
