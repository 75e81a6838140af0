import { FormatError } from "../../src/base/errors.ts";
import { printable } from "../../src/base/text.ts";
import type { Embedder } from "../../src/embedding/embedder.ts";
import type { TextEmbedder } from "../../src/embedding/search/embed-corpus.ts";
import { requireModel } from "../../src/open.ts";
import type { NodeEmbedderOptions } from "../../src/platform/node/load-embedder.ts";
import { checkSource } from "../check-source.ts";
import type { Context } from "../context.ts";
import { warnOfDoubts } from "../doubts.ts";
import { plural } from "../render/sizes.ts";

/** What the flags say about the model and about what it computes. */
export interface ModelFlags {
  readonly heads?: number;
  readonly "max-length"?: number;
  readonly "no-normalize"?: true;
  readonly vocab?: string;
  readonly compat?: "cpp_embedder";
}

export interface LoadedModel {
  readonly embedder: TextEmbedder;
  /** The target as typed, without credentials. */
  readonly model: string;
  /** Everything that the flags change about vectors, in words. */
  readonly settings: string;
  /** Says how many texts were too long, and ends threads. */
  finish(): Promise<void>;
}

/** Opens the weights and makes an embedder of them, as the flags say. */
export async function loadForCommand(context: Context, target: string, flags: ModelFlags): Promise<LoadedModel> {
  const { signal } = context;
  // Loading code takes longer than running it: both at once.
  const [opened, { loadEmbedder }, vocabulary] = await Promise.all([
    context.open(target),
    import("../../src/platform/node/load-embedder.ts"),
    flags.vocab === undefined ? undefined : readVocabularyFile(flags.vocab),
  ]);
  const loading = loadEmbedder(requireModel(opened.container), {
    heads: flags.heads,
    maxTokens: flags["max-length"],
    normalize: flags["no-normalize"] === true ? "none" : undefined,
    compat: flags.compat,
    threads: context.flags.concurrency,
    resolver: opened.siblings,
    vocabulary,
    signal,
  });
  // Sums are made on another thread meanwhile.
  const hint = "Get the file again; see what is damaged with: tare verify";
  const [embedder] = await Promise.all([loading, checkSource(context, opened, { damage: "refuse", hint })]);
  warnOfDoubts(context, opened.container);
  for (const note of [...opened.notes.map(({ message }) => message), ...embedder.notes]) context.note(`note: ${note}`);
  const { kernel, precision, maxTokens } = embedder;
  if (context.flags.verbose === true)
    context.note(`${kernel} kernels, ${precision}, texts of up to ${maxTokens} tokens`);
  const watched = new WatchedEmbedder(embedder, signal);
  return {
    embedder: watched,
    model: opened.label,
    settings: [flags.compat ?? "bert", `${maxTokens} tokens`, flags["no-normalize"] ? "pooled" : "normalized"].join(
      ", ",
    ),
    finish: async () => {
      watched.report(context);
      await embedder.close();
    },
  };
}

async function readVocabularyFile(path: string): Promise<NodeEmbedderOptions["vocabulary"]> {
  return (await import("../vocabulary-file.ts")).readVocabulary(path);
}

/** A character becomes three tokens at most: a Hangul syllable is three jamo. */
const MOST_TOKENS = 3;

/** Half of such a vector would be null in JSON, and no text is close to it. */
function notFinite(text: string): FormatError {
  const shown = JSON.stringify(printable(text.slice(0, 40)));
  const message = `Cannot embed ${shown}: values of its vector must be finite, found NaN or infinity`;
  return new FormatError(
    "format/embed.not-finite",
    message,
    { source: "encoder" },
    { hint: "Look for NaN in the weights with: tare stats" },
  );
}

/** Counts the texts that lose their end, and refuses vectors that mean nothing. */
class WatchedEmbedder implements TextEmbedder {
  readonly dimension: number;
  readonly #embedder: Embedder;
  readonly #signal: AbortSignal;
  #texts = 0;
  #cut = 0;

  constructor(embedder: Embedder, signal: AbortSignal) {
    this.dimension = embedder.dimension;
    this.#embedder = embedder;
    this.#signal = signal;
  }

  async embed(texts: readonly string[]): Promise<readonly Float32Array[]> {
    const { maxTokens, tokenizer } = this.#embedder;
    this.#texts += texts.length;
    for (const text of texts) {
      const mayBeLong = text.length * MOST_TOKENS > maxTokens - 2;
      if (mayBeLong && tokenizer.encode(text, maxTokens + 1).length > maxTokens) this.#cut++;
    }
    const vectors = await this.#embedder.embed(texts, { signal: this.#signal });
    const bad = vectors.findIndex((vector) => !vector.every(Number.isFinite));
    if (bad >= 0) throw notFinite(texts[bad] ?? "");
    return vectors;
  }

  report(context: Context): void {
    if (this.#cut === 0) return;
    const { maxTokens } = this.#embedder;
    const which = `${this.#cut} of ${plural(this.#texts, "text")}`;
    context.note(`note: ${which} ${this.#cut === 1 ? "has" : "have"} more than ${maxTokens} tokens and lost the end`);
  }
}
