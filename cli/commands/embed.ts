import { LimitError, UsageError } from "../../src/base/errors.ts";
import type { TextEmbedder } from "../../src/embedding/search/embed-corpus.ts";
import { VectorTable } from "../../src/embedding/search/rank.ts";
import { defineCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { EXIT } from "../exit-codes.ts";
import { checkAbsent } from "../output-target.ts";
import { checkStandardOutput } from "../stdout-sink.ts";
import { type LoadedModel, loadForCommand } from "./embed-model.ts";
import {
  encodeBinary,
  encodeNpy,
  renderSimilarities,
  renderVectors,
  shortest,
  showResult,
  similarities,
  vectorJson,
  writeData,
} from "./embed-output.ts";
import { type NumberedText, readTextFile, readTypedTexts } from "./embed-texts.ts";

const DEFAULT_TOP = 5;
/** So many texts go to the model at once: enough for every core, few enough for a bar that moves. */
const BATCH = 256;
/** What all vectors together may take: they are held until the last one is there. Nearly three million of MiniLM. */
const MAX_VECTOR_BYTES = 4 * 2 ** 30;

const FLAGS = {
  file: { kind: "path", value: "FILE", summary: "texts from FILE: one a line, or .jsonl; - is standard input" },
  npy: { kind: "switch", summary: "write a NumPy file: float32, (texts, dimensions)" },
  binary: { kind: "switch", summary: "write cpp_embedder's file: count, dimensions, float32 values" },
  similarity: { kind: "switch", summary: "the cosine of two texts, or of every pair of more" },
  search: { kind: "path", value: "FILE", summary: "rank the lines of FILE by how close they are to QUERY" },
  top: { kind: "integer", value: "N", min: 1, max: 1_000_000, summary: "with --search: the N closest lines (5)" },
  index: { kind: "path", value: "FILE", summary: "with --search: keep the vectors in FILE for the next time" },
  heads: { kind: "integer", value: "N", min: 1, max: 4096, summary: "attention heads, where the model does not say" },
  "max-length": { kind: "integer", value: "N", min: 2, max: 1_000_000, summary: "cut texts to N tokens" },
  "no-normalize": { kind: "switch", summary: "leave the length of the vectors as it is" },
  vocab: { kind: "path", value: "FILE", summary: "a vocab.txt or tokenizer.json to use" },
  compat: { kind: "choice", choices: ["cpp_embedder"], summary: "repeat what that library computes" },
} as const;

interface EmbedFlags {
  readonly file?: string;
  readonly npy?: true;
  readonly binary?: true;
  readonly similarity?: true;
  readonly search?: string;
  readonly top?: number;
  readonly index?: string;
  readonly heads?: number;
  readonly "max-length"?: number;
  readonly "no-normalize"?: true;
  readonly vocab?: string;
  readonly compat?: "cpp_embedder";
}

export const embedCommand = defineCommand({
  positionals: { names: ["WEIGHTS", "TEXT"], min: 1, max: Number.POSITIVE_INFINITY },
  flags: FLAGS,
  details: [
    "Vectors of sentences by a BERT model (MiniLM and its kin) in any format that tare reads, or a Hugging Face folder. TEXT - reads one text a line from standard input; empty lines are texts too. Texts that begin with a dash go behind --.",
    "A file or pipe of texts is held in memory: up to 1 GiB (--memory), at 256 bytes for each text beside its own, and 16 MiB a line; vectors take 4 GiB at most. More is refused (exit 7): embed it in parts.",
    'A .jsonl file has a string, or an object with the text under "text", on each line.',
    "An index is checked against the model and the corpus: lines that changed are embedded again, the others are not.",
  ],
  examples: [
    { command: 'tare embed minilm.weights "A cat sat." "Dogs bark."', says: "two vectors, for a person" },
    { command: "tare embed minilm.weights - --npy < lines.txt > vectors.npy", says: "one row a line, for NumPy" },
    { command: 'tare embed minilm.weights --similarity "a boat" "a ship"', says: "one number" },
    {
      command: 'tare embed minilm.weights --search notes.txt "how do tides work" --top 3 --index notes.idx',
      says: "ranked lines; the second time without embedding them",
    },
  ],
  output: "data",
  vaultOutput: "single file",
  async run(context, { flags, positionals }) {
    const [target = "", ...typed] = positionals;
    checkFlags(flags, typed);
    const output = context.flags.output === "-" ? undefined : context.flags.output;
    if (isData(flags) && output === undefined) checkStandardOutput(context);
    if (output !== undefined) await checkAbsent(context, output);
    // Texts first: what is wrong with them is known before a large model is read.
    const texts = await (flags.search === undefined
      ? readTexts(context, flags, typed)
      : readTextFile(context, flags.search));
    const model = await loadForCommand(context, target, flags);
    try {
      checkVectors(texts.length, model.embedder.dimension, flags.search ?? flags.file ?? "command line");
      if (flags.search === undefined) await embedTexts(context, { flags, texts, ...model });
      else await search(context, { flags, lines: texts, query: typed[0] as string, ...model });
    } finally {
      await model.finish();
    }
    return EXIT.success;
  },
});

function checkVectors(count: number, dimension: number, source: string): void {
  const byteLength = count * dimension * Float32Array.BYTES_PER_ELEMENT;
  if (byteLength <= MAX_VECTOR_BYTES) return;
  const message = `Cannot hold the vectors of ${count} texts: must take <= ${MAX_VECTOR_BYTES} bytes, found ${byteLength}`;
  throw new LimitError("limit/budget", message, { source }, { hint: "Embed the texts in parts" });
}

function isData(flags: EmbedFlags): boolean {
  return flags.npy === true || flags.binary === true;
}

function checkFlags(flags: EmbedFlags, typed: readonly string[]): void {
  const shapes = [flags.npy, flags.binary, flags.similarity, flags.search].filter((flag) => flag !== undefined);
  if (shapes.length > 1) throw usage("Cannot use --npy, --binary, --similarity and --search together: choose one");
  if (flags.search === undefined) {
    if (flags.top !== undefined) throw usage("Cannot use --top without --search");
    if (flags.index !== undefined) throw usage("Cannot use --index without --search");
    if (typed.length === 0 && flags.file === undefined) {
      throw usage("Cannot run without TEXT: must be texts, - for standard input, or --file FILE");
    }
    return;
  }
  if (flags.file !== undefined) throw usage("Cannot use --file with --search: the corpus is the file of --search");
  if (typed.length !== 1) throw usage(`Cannot search for ${typed.length} texts: must be one QUERY`);
}

function usage(message: string): UsageError {
  return new UsageError("usage/arguments", message, { source: "command line" }, { hint: "Look at: tare embed --help" });
}

async function readTexts(context: Context, flags: EmbedFlags, typed: readonly string[]): Promise<NumberedText[]> {
  const texts = await readTypedTexts(context, typed);
  if (flags.file !== undefined) for (const text of await readTextFile(context, flags.file)) texts.push(text);
  if (flags.similarity !== true || texts.length >= 2) return texts;
  throw usage(`Cannot compare ${texts.length === 1 ? "one text" : "no texts"}: --similarity must have two or more`);
}

async function embedTexts(
  context: Context,
  request: LoadedModel & { readonly flags: EmbedFlags; readonly texts: readonly NumberedText[] },
): Promise<void> {
  const { flags, texts, model, embedder } = request;
  const { dimension } = embedder;
  const plain = texts.map(({ text }) => text);
  const vectors = await embedAll(context, embedder, texts);
  if (isData(flags)) {
    const bytes = flags.npy === true ? encodeNpy(vectors) : encodeBinary(vectors);
    return writeData(context, bytes, { model, dimension, count: vectors.count });
  }
  if (flags.similarity === true) {
    const matrix = similarities(vectors);
    const pair = matrix.length === 2 ? { similarity: shortest(matrix[0]?.[1] ?? 0) } : {};
    const rounded = matrix.map((row) => row.map(shortest));
    return showResult(context, {
      json: () => ({ model, dimension, texts: plain, ...pair, similarities: rounded }),
      text: () => renderSimilarities(matrix, texts, context),
    });
  }
  const rows = Array.from({ length: vectors.count }, (_, i) => vectors.row(i));
  return showResult(context, {
    json: () => ({ model, dimension, texts: plain, vectors: rows.map(vectorJson) }),
    text: () => renderVectors(texts, vectors, context),
  });
}

async function embedAll(
  context: Context,
  embedder: TextEmbedder,
  texts: readonly NumberedText[],
): Promise<VectorTable> {
  const vectors = VectorTable.allocate(embedder.dimension, texts.length);
  const progress = context.progress({
    label: "embedding",
    total: texts.reduce((sum, { text }) => sum + text.length, 0),
  });
  for (let start = 0; start < texts.length; start += BATCH) {
    context.signal.throwIfAborted();
    const batch = texts.slice(start, start + BATCH).map(({ text }) => text);
    const made = await embedder.embed(batch);
    for (const [i, vector] of made.entries()) vectors.row(start + i).set(vector);
    progress.add(batch.reduce((sum, text) => sum + text.length, 0));
  }
  progress.end();
  return vectors;
}

async function search(
  context: Context,
  request: LoadedModel & {
    readonly flags: EmbedFlags;
    readonly lines: readonly NumberedText[];
    readonly query: string;
  },
): Promise<void> {
  const { flags, ...rest } = request;
  const { searchCorpus } = await import("./embed-search.ts");
  const result = await searchCorpus(context, { ...rest, top: flags.top ?? DEFAULT_TOP, index: flags.index });
  await showResult(context, result);
}
