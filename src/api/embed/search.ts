import { UsageError } from "../../base/errors.ts";
import {
  type CorpusIndex,
  type IndexIdentity,
  identifyEmbedder,
  readCorpusIndex,
  sameIdentity,
  writeCorpusIndex,
} from "../../embedding/search/corpus-index.ts";
import { type EmbeddedCorpus, embedCorpus, type TextEmbedder } from "../../embedding/search/embed-corpus.ts";
import { rankVectors, VectorTable } from "../../embedding/search/rank.ts";
import type { NumberedText } from "../../embedding/texts.ts";
import type { IndexFile, Request, VerbHost } from "../host.ts";
import { startProgress } from "../progress.ts";

/** One answer of a search. */
export interface SearchHit {
  /** From 1. */
  readonly rank: number;
  /** Cosine. */
  readonly score: number;
  /** Where `search` is a folder: the file, by its name from there. */
  readonly file?: string;
  /** Line in its file, or place in its list, from 1; the first one of a paragraph. */
  readonly line: number;
  readonly text: string;
}

export interface SearchRequest extends Request {
  readonly embedder: TextEmbedder;
  /** The settings of the embedder: vectors made with other settings are not comparable. */
  readonly settings: string;
  /** The corpus. */
  readonly lines: readonly NumberedText[];
  readonly query: string;
  readonly top: number;
  /** Where the corpus's vectors are stored. */
  readonly index?: string | undefined;
  /** Told when the index is written, or would be. */
  readonly onIndex?: ((kept: { readonly vectors: number; readonly embedded: number }) => void) | undefined;
}

export interface SearchFindings {
  readonly results: readonly SearchHit[];
  readonly corpus: { readonly lines: number; readonly embedded: number; readonly reused: number };
}

/** Ranks the lines of a corpus; embeds only those that the index does not have. */
export async function searchCorpus(host: VerbHost, request: SearchRequest): Promise<SearchFindings> {
  const { embedder, lines, query, top } = request;
  const corpus = await embedLines(host, request);
  const [vector = new Float32Array(embedder.dimension)] = await embedder.embed([query]);
  const table = perLine(corpus, embedder.dimension);
  const results = rankVectors(vector, table, top).map(({ index, score }, i) => {
    const { line, text, file } = lines[index] as NumberedText;
    return { rank: i + 1, score: shortest(score), ...(file === undefined ? {} : { file }), line, text };
  });
  const { embedded, indexed } = corpus;
  return { results, corpus: { lines: lines.length, embedded, reused: indexed.vectors.count - embedded } };
}

/** One vector for each line, also if several lines have the same text. */
function perLine({ indexed, rows }: EmbeddedCorpus, dimension: number): VectorTable {
  const { vectors } = indexed;
  if (vectors.count === rows.length) return vectors;
  const table = VectorTable.allocate(dimension, rows.length);
  for (const [line, row] of rows.entries()) table.row(line).set(vectors.row(row));
  return table;
}

async function embedLines(host: VerbHost, request: SearchRequest): Promise<EmbeddedCorpus> {
  const { embedder, settings, lines, index: path, engine, signal, onNote, onProgress } = request;
  const file = path === undefined ? undefined : await indexFileOf(host, path, signal);
  const identity = file === undefined ? undefined : await identifyEmbedder(embedder, settings);
  const found = file === undefined ? undefined : await readIndex(file, request);
  const known =
    found !== undefined && identity !== undefined && sameIdentity(found.identity, identity) ? found : undefined;
  if (found !== undefined && known === undefined) {
    onNote?.(`"${path}" was made by another model or with other flags: every line is embedded again`);
  }
  const total = lines.reduce((sum, { text }) => sum + text.length, 0);
  const progress = startProgress({ label: "embedding", total }, onProgress);
  const corpus = await embedCorpus(
    embedder,
    lines.map(({ text }) => text),
    { engine, known, signal, onProgress: (length) => progress.add(length) },
  );
  progress.end();
  if (file !== undefined && identity !== undefined) await keepIndex(file, { corpus, identity, request });
  return corpus;
}

function indexFileOf(host: VerbHost, path: string, signal: AbortSignal | undefined): Promise<IndexFile> {
  if (host.embedding !== undefined) return host.embedding.indexFile(path, signal);
  const message = 'Cannot embed: the option "index" is a path, and without a file system there are none';
  const hint = 'Paths work with: import { embed } from "tare/node"';
  throw new UsageError("usage/option-value", message, { source: "embed", path: "index" }, { hint });
}

async function readIndex(file: IndexFile, { engine }: SearchRequest): Promise<CorpusIndex | undefined> {
  const source = await file.read();
  try {
    return source && (await readCorpusIndex(source, engine));
  } finally {
    await source?.close();
  }
}

/** Replaces the index in one step; it is our file, so the option force is not needed. */
async function keepIndex(
  file: IndexFile,
  {
    corpus,
    identity,
    request,
  }: { readonly corpus: EmbeddedCorpus; readonly identity: IndexIdentity; readonly request: SearchRequest },
): Promise<void> {
  if (corpus.state === "as known") return;
  const { embedded, indexed } = corpus;
  if (request.dryRun !== true) await writeCorpusIndex({ ...indexed, identity }, await file.folder(), request.engine);
  request.onIndex?.({ vectors: indexed.vectors.count, embedded });
}

/** A float32 needs at most nine digits; more would only show how it is stored. */
export function shortest(value: number): number {
  return Number(value.toPrecision(9));
}
