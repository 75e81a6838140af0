import { existsSync } from "node:fs";
import { basename, dirname } from "node:path";
import { printable } from "../../src/base/text.ts";
import {
  type CorpusIndex,
  type IndexIdentity,
  identifyEmbedder,
  readCorpusIndex,
  sameIdentity,
  writeCorpusIndex,
} from "../../src/embedding/search/corpus-index.ts";
import { type EmbeddedCorpus, embedCorpus, type TextEmbedder } from "../../src/embedding/search/embed-corpus.ts";
import { rankVectors, VectorTable } from "../../src/embedding/search/rank.ts";
import type { Context, Result } from "../context.ts";
import { formatInteger, plural } from "../render/sizes.ts";
import { renderTable } from "../render/table.ts";
import { shortest } from "./embed-output.ts";
import type { NumberedText } from "./embed-texts.ts";

export interface SearchRequest {
  readonly embedder: TextEmbedder;
  /** Shown as the model's name. */
  readonly model: string;
  /** What was asked of the embedder: vectors made otherwise are not comparable. */
  readonly settings: string;
  /** The corpus. */
  readonly lines: readonly NumberedText[];
  readonly query: string;
  readonly top: number;
  /** Where the corpus's vectors are kept. */
  readonly index: string | undefined;
}

/** Ranks the lines of a corpus; embeds only those that the index does not know. */
export async function searchCorpus(context: Context, request: SearchRequest): Promise<Result> {
  const { embedder, lines, query, top, model } = request;
  const corpus = await embedLines(context, request);
  const [vector = new Float32Array(embedder.dimension)] = await embedder.embed([query]);
  const table = perLine(corpus, embedder.dimension);
  const results = rankVectors(vector, table, top).map(({ index, score }, i) => {
    const { line, text } = lines[index] as NumberedText;
    return { rank: i + 1, score: shortest(score), line, text };
  });
  const { embedded } = corpus;
  const counts = { lines: lines.length, embedded, reused: corpus.indexed.vectors.count - embedded };
  return {
    json: () => ({ model, dimension: embedder.dimension, query, results, corpus: counts }),
    text: () => renderResults(results, context),
  };
}

/** A line's vector, also where the same text stands on other lines. */
function perLine({ indexed, rows }: EmbeddedCorpus, dimension: number): VectorTable {
  const { vectors } = indexed;
  if (vectors.count === rows.length) return vectors;
  const table = VectorTable.allocate(dimension, rows.length);
  for (const [line, row] of rows.entries()) table.row(line).set(vectors.row(row));
  return table;
}

async function embedLines(
  context: Context,
  { embedder, settings, lines, index: path }: SearchRequest,
): Promise<EmbeddedCorpus> {
  const engine = await context.engine();
  const identity = path === undefined ? undefined : await identifyEmbedder(embedder, settings);
  const found = path === undefined ? undefined : await readIndex(context, path);
  const known =
    found !== undefined && identity !== undefined && sameIdentity(found.identity, identity) ? found : undefined;
  if (found !== undefined && known === undefined) {
    context.note(`note: "${path}" was made by another model or with other flags: every line is embedded again`);
  }
  const progress = context.progress({
    label: "embedding",
    total: lines.reduce((sum, { text }) => sum + text.length, 0),
  });
  const corpus = await embedCorpus(
    embedder,
    lines.map(({ text }) => text),
    { engine, known, signal: context.signal, onProgress: (length) => progress.add(length) },
  );
  progress.end();
  if (path !== undefined && identity !== undefined) await keepIndex(context, path, { corpus, identity });
  return corpus;
}

async function readIndex(context: Context, path: string): Promise<CorpusIndex | undefined> {
  if (!existsSync(path)) return undefined;
  const { openFile } = await import("../../src/platform/node/file-source.ts");
  const source = await openFile(path, { signal: context.signal, pipes: "refuse" });
  try {
    return await readCorpusIndex(source, await context.engine());
  } finally {
    await source.close();
  }
}

/** Replaces the index in one step; it is ours, so no --force is needed. */
async function keepIndex(
  context: Context,
  path: string,
  { corpus, identity }: { readonly corpus: EmbeddedCorpus; readonly identity: IndexIdentity },
): Promise<void> {
  if (corpus.state === "as known") return;
  const { embedded, indexed } = corpus;
  const what = `${plural(indexed.vectors.count, "vector")}, ${formatInteger(embedded)} of them new`;
  if (context.flags["dry-run"] === true) {
    context.note(`would write ${path}: ${what}`);
    return;
  }
  const [{ directoryOutput }, { abortAllSinks }] = await Promise.all([
    import("../../src/platform/node/directory-output.ts"),
    import("../../src/platform/node/file-sink.ts"),
  ]);
  context.onExit(abortAllSinks);
  const output = await directoryOutput(dirname(path), basename(path), { overwrite: "replace" });
  await writeCorpusIndex({ ...indexed, identity }, output, await context.engine());
  context.note(`${path}: ${what}`);
}

interface SearchResult {
  readonly score: number;
  readonly line: number;
  readonly text: string;
}

function renderResults(results: readonly SearchResult[], { colors, width }: Context): string {
  if (results.length === 0) return colors.dim("the corpus is empty");
  const columns = [
    { title: "score", align: "right" },
    { title: "line", align: "right" },
    { title: "text", cut: "end" },
  ] as const;
  const rows = results.map(({ score, line, text }) => [
    { text: score.toFixed(4), style: colors.cyan },
    formatInteger(line),
    printable(text),
  ]);
  return renderTable(columns, rows, { width, styleTitle: colors.dim });
}
