import { type AnyEmbedResult, type EmbedOptions, embed } from "../../../src/api/embed/embed.ts";
import { commitTo } from "../../../src/api/outputs.ts";
import { UsageError } from "../../../src/base/errors.ts";
import { formatInteger, formatSize, plural } from "../../../src/base/figures.ts";
import { encodeUtf8 } from "../../../src/base/text.ts";
import { readTexts } from "../../../src/embedding/texts.ts";
import { defineCommand } from "../../command.ts";
import type { Context } from "../../context.ts";
import { EXIT } from "../../exit-codes.ts";
import type { FlagValues } from "../../flags/flags.ts";
import { commandBytes, commandHost, writeOptions } from "../../host.ts";
import { embeddingJson, renderEmbedding } from "../../render/embeddings.ts";
import { encodeJson } from "../../render/json.ts";
import { checkAbsent, checkStandardOutput, openOutputFile } from "../../targets/outputs.ts";

const FLAGS = {
  file: { kind: "path", value: "FILE", summary: "texts from FILE: one a line, or .jsonl; - is standard input" },
  as: { kind: "choice", choices: ["npy", "binary", "json"], summary: "write a NumPy file, cpp_embedder's, or JSON" },
  npy: { kind: "switch", summary: "write a NumPy file: float32, (texts, dimensions)" },
  binary: { kind: "switch", summary: "write cpp_embedder's file: count, dimensions, float32 values" },
  similarity: { kind: "switch", summary: "the cosine of two texts, or of every pair of more" },
  search: { kind: "path", value: "FILE", summary: "rank the lines of FILE, or of text files below a folder, by QUERY" },
  paragraphs: { kind: "switch", summary: "with --search: rank what empty lines separate, not lines" },
  top: { kind: "integer", value: "N", min: 1, max: 1_000_000, summary: "with --search: the N closest lines (5)" },
  index: { kind: "path", value: "FILE", summary: "with --search: keep the vectors in FILE for the next time" },
  heads: { kind: "integer", value: "N", min: 1, max: 4096, summary: "attention heads, where the model does not say" },
  "max-length": { kind: "integer", value: "N", min: 2, max: 1_000_000, summary: "cut texts to N tokens" },
  "no-normalize": { kind: "switch", summary: "leave the length of the vectors as it is" },
  vocab: { kind: "path", value: "FILE", summary: "a vocab.txt or tokenizer.json to use" },
  compat: { kind: "choice", choices: ["cpp_embedder"], summary: "repeat what that library computes" },
} as const;

type EmbedFlags = FlagValues<typeof FLAGS>;

export const embedCommand = defineCommand({
  positionals: { names: ["WEIGHTS", "TEXT"], min: 1, max: Number.POSITIVE_INFINITY },
  flags: FLAGS,
  details: [
    "Vectors of sentences by a BERT model (MiniLM and its kin) in any format that tare reads, or a Hugging Face folder. TEXT - reads one text a line from standard input; empty lines are texts too. Texts that begin with a dash go behind --.",
    "A file or pipe of texts is held in memory: up to 1 GiB (--memory), at 256 bytes for each text beside its own, and 16 MiB a line; vectors take 4 GiB at most. More is refused (exit 7): embed it in parts.",
    'A .jsonl file has a string, or an object with the text under "text", on each line.',
    "--search of a folder reads the text and Markdown files below it (.txt, .text, .md, .markdown), without hidden ones and links, and names the file of each result. --paragraphs ranks what empty lines separate, with its lines joined.",
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
    { command: 'tare embed minilm.weights --search notes/ --paragraphs "tides"', says: "ranked paragraphs" },
  ],
  output: "data",
  vaultOutput: "single file",
  async run(context, { flags, positionals }) {
    const [target = "", ...typed] = positionals;
    const as = dataFormat(flags);
    checkFlags(flags, typed);
    const { output } = context.flags;
    if (as !== undefined && (output === undefined || output === "-")) checkStandardOutput(context);
    if (output !== undefined && output !== "-") await checkAbsent(context, output);
    const texts = await typedTexts(context, typed);
    const common = await writeOptions(context);
    const options = { ...common, ...embedOptions(context, flags), ...(as && { as, output: output ?? "-" }) };
    const result = await embed(commandHost(context), target, texts, options, {
      onLoaded({ kernel, precision, maxTokens }) {
        if (context.flags.verbose !== true) return;
        context.note(`${kernel} kernels, ${precision}, texts of up to ${maxTokens} tokens`);
      },
      onIndex({ vectors, embedded }) {
        const what = `${flags.index}: ${plural(vectors, "vector")}, ${formatInteger(embedded)} of them new`;
        context.note(context.flags["dry-run"] === true ? `would write ${what}` : what);
      },
    });
    if ("byteLength" in result) await tellFile(context, result);
    else await showResult(context, result, flags);
    return EXIT.success;
  },
});

function dataFormat({ as, npy, binary }: EmbedFlags): EmbedOptions["as"] {
  if (npy === true || as === "npy") return "npy";
  return binary === true || as === "binary" ? "binary" : undefined;
}

function embedOptions({ flags: { memory, concurrency } }: Context, flags: EmbedFlags): EmbedOptions {
  const { file, similarity, search, paragraphs, top, index, heads, vocab, compat } = flags;
  const normalize = flags["no-normalize"] === true ? false : undefined;
  const own = { heads, maxLength: flags["max-length"], normalize, vocab, compat };
  return { ...own, file, similarity, search, paragraphs, top, index, memory, concurrency };
}

function checkFlags(flags: EmbedFlags, typed: readonly string[]): void {
  const { npy, binary, similarity, search, as, file } = flags;
  const shapes = [npy, binary, similarity, search, as].filter((flag) => flag !== undefined);
  if (shapes.length > 1) throw usage("Cannot use --npy, --binary, --similarity and --search together: choose one");
  if (search === undefined) {
    for (const name of ["top", "index", "paragraphs"] as const)
      if (flags[name] !== undefined) throw usage(`Cannot use --${name} without --search`);
    if (typed.length > 0 || file !== undefined) return;
    throw usage("Cannot run without TEXT: must be texts, - for standard input, or --file FILE");
  }
  if (file !== undefined) throw usage("Cannot use --file with --search: the corpus is the file of --search");
  if (typed.length !== 1) throw usage(`Cannot search for ${typed.length} texts: must be one QUERY`);
}

function usage(message: string): UsageError {
  return new UsageError("usage/arguments", message, { source: "command line" }, { hint: "Look at: tare embed --help" });
}

/** The texts of the command line, with "-" replaced by the lines of standard input. */
async function typedTexts(context: Context, typed: readonly string[]): Promise<readonly string[]> {
  const place = typed.indexOf("-");
  if (place < 0) return typed;
  if (typed.includes("-", place + 1)) throw usage('Cannot read standard input twice: "-" must be given once');
  const { memory: maxBytes } = context.flags;
  const lines = await readTexts(await commandBytes(context, "-"), { maxBytes, signal: context.signal });
  return typed.slice(0, place).concat(
    lines.map(({ text }) => text),
    typed.slice(place + 1),
  );
}

/** Bytes went to a file, or to standard output, which then has nothing else. */
async function tellFile(context: Context, result: AnyEmbedResult & { readonly byteLength: number }): Promise<void> {
  const { output = "-", "dry-run": dryRun, json } = context.flags;
  const size = formatSize(result.byteLength);
  if (dryRun === true) context.note(`would write ${size} to ${output === "-" ? "standard output" : output}`);
  if (output === "-") return;
  if (json === true) await context.show({ json: () => result, text: () => "" });
  else if (dryRun !== true) context.note(`${output}: ${size}`);
}

/** Shows the result as text or JSON, or writes it to -o. */
async function showResult(context: Context, result: AnyEmbedResult, { as }: EmbedFlags): Promise<void> {
  const { output, "dry-run": dryRun } = context.flags;
  const isJson = context.flags.json === true || as === "json";
  const json = (): unknown => embeddingJson(result);
  const layout = context.width === undefined || output !== undefined ? "compact" : "pretty";
  const text = (): string => (isJson ? encodeJson(json(), layout) : renderEmbedding(result, context));
  if (output === undefined || output === "-") return context.show({ json, text });
  const content = encodeUtf8(`${text()}\n`);
  if (dryRun === true) return context.note(`would write ${formatSize(content.byteLength)} to ${output}`);
  await commitTo(await openOutputFile(context, output), (sink) => sink.append(content));
}
