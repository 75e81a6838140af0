import type { Bytes } from "../../base/bytes.ts";
import { encodeHex, printable } from "../../base/text.ts";
import { type Extent, findGaps } from "../../bytes/extents.ts";
import { StatedFacts } from "../../model/bert/config.ts";
import { namedBertTensors } from "../../model/bert/model.ts";
import { bertFaults } from "../../model/bert/shapes.ts";
import { Sidecars } from "../../model/bert/sidecars.ts";
import { type Finding, findingFromError } from "../../model/finding.ts";
import type { FormatVerifier, VerifyContext } from "../../model/format.ts";
import { specOccupied } from "./inspect.ts";
import { FILE_FLAGS, fileFooter } from "./layout.ts";
import { type EmbdModel, embdModel, type SpecDetails } from "./model.ts";
import { decodeFooter, footerProblems, joinSums, type RunSums, sumProblems } from "./spec/footer.ts";
import { OPTIONAL_KEYS, REQUIRED_KEYS, WORD_EMBEDDINGS } from "./spec/metadata.ts";
import type { TokenList } from "./spec/vocabulary.ts";

/** Faults that opening tolerates although the specification forbids them; verify reports them as errors. */
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

/** Checks what opening did not check: checksums, padding, and whether vocabulary, metadata and tensors agree. */
async function* verifyEmbd(model: EmbdModel, context: VerifyContext): AsyncGenerator<Finding> {
  const { details } = model;
  context.count("tensors", model.tensors.length);
  for (const warning of model.warnings) if (FORBIDDEN.has(warning.code)) yield { ...warning, severity: "error" };
  if (details.layout !== "adr" && details.vocabulary !== undefined) {
    context.count("tokens", details.vocabulary.tokens.length);
    yield* lintVocabulary(model, details.vocabulary.tokens);
  }
  if (details.layout !== "spec") return;
  yield* lintMetadata(model, details);
  yield* lintTensors(model, details);
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
      // Opening a small file has already reported it, as a warning.
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
    hint: 'Check everything: verify it at the level "full"',
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
  /** Offset of the first byte between sections and tensors that is not zero. */
  readonly paddingAt: number | undefined;
}

/** One pass over everything before the footer, split at the beginning and the end of the tensor data. */
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

/** Checks the vocabulary itself, and against the table of word vectors. */
function* lintVocabulary(model: EmbdModel, tokens: TokenList): Generator<Finding> {
  yield* lintTokens(model, tokens);
  const words = model.tensors.find(({ name }) => name === WORD_EMBEDDINGS);
  const rows = words?.shape[0];
  const said = model.metadata.text("vocab_size");
  if (rows !== undefined && rows !== tokens.length) {
    // An id without a row cannot be embedded; a row without a token is just never used.
    const severity = tokens.length > rows ? "error" : "warning";
    const message = `The vocabulary must have as many tokens as "${WORD_EMBEDDINGS}" has rows, ${rows}: found ${tokens.length}`;
    yield { severity, code: "format/embd.vocabulary-size", message, at: vocabularyAt(model), name: WORD_EMBEDDINGS };
  }
  if (said !== undefined && said !== String(tokens.length)) {
    const message = `vocab_size must be the number of tokens, ${tokens.length}: found "${printable(said)}"`;
    yield { severity: "warning", code: "format/embd.vocabulary-size", message, at: vocabularyAt(model) };
  }
}

function* lintTokens(model: EmbdModel, tokens: TokenList): Generator<Finding> {
  const at = vocabularyAt(model);
  const ids = new Map<string, number>();
  let invalid: number | undefined;
  let repeated: readonly [number, number] | undefined;
  for (let id = 0; id < tokens.length; id++) {
    const text = tokens.text(id);
    if (text === undefined) {
      invalid ??= id;
      continue;
    }
    if (text === "") continue; // a hole in the ids, of which there may be many
    const before = ids.get(text);
    if (before !== undefined) repeated ??= [before, id];
    ids.set(text, id);
  }
  if (invalid !== undefined) {
    const message = `Token ${invalid} must be UTF-8, found the bytes ${encodeHex(tokens.bytes(invalid).slice(0, 16))}`;
    yield { severity: "error", code: "format/embd.utf8", message, at };
  }
  if (repeated === undefined) return;
  const [first, second] = repeated;
  const message = `Tokens ${first} and ${second} are both "${printable(tokens.text(first) ?? "")}": texts get the later id`;
  yield { severity: "warning", code: "format/embd.duplicate-token", message, at };
}

/** Keys that the specification requires. A reader can do without them, so this is a warning, or a note for the date. */
function* lintMetadata({ metadata }: EmbdModel, { source, header }: SpecDetails): Generator<Finding> {
  const at = { source: source.label, offset: header.metadataOffset, path: "metadata" };
  const missing = REQUIRED_KEYS.filter((key) => metadata.get(key) === undefined);
  const wanted = missing.filter((key) => !OPTIONAL_KEYS.has(key));
  if (wanted.length > 0) {
    const message = `The metadata must have the keys that the specification requires: found no ${wanted.join(", ")}`;
    yield { severity: "warning", code: "format/embd.required-key", message, at };
  } else if (missing.length > 0) {
    const message = `The metadata has no ${missing.join(", ")}, which the specification lists and the original schema leaves out`;
    yield { severity: "note", code: "format/embd.required-key", message, at };
  }
}

/** The tensors that the specification requires ("Required Tensors"), unless the file holds another kind of model. */
async function* lintTensors({ tensors, metadata }: EmbdModel, details: SpecDetails): AsyncGenerator<Finding> {
  const { source, header } = details;
  const byName = await namedBertTensors(tensors, metadata);
  const facts = await StatedFacts.read({ metadata, sidecars: new Sidecars(undefined), hidden: undefined });
  if (facts.foreignKind() !== undefined) return;
  const stated = {
    hidden: facts.count(["hidden_size"]),
    layers: facts.layers(),
    intermediate: facts.count(["intermediate_size"]),
  };
  for (const { name, code, message } of bertFaults(byName, stated)) {
    const at = { source: source.label, offset: header.tensorIndexOffset, path: "tensor_index" };
    yield { severity: "error", code, message, at, name };
  }
}

function vocabularyAt({ details, parts }: EmbdModel): Finding["at"] {
  const source = parts[0]?.label ?? "embd";
  if (details.layout === "spec") return { source, offset: details.header.vocabOffset, path: "vocabulary" };
  return { source, offset: details.layout === "stream" ? details.vocabulary.offset : 0, path: "vocab" };
}

export const verifier: FormatVerifier = {
  padding: "checked",
  verify: (container, context) => verifyEmbd(embdModel(container), context),
};
