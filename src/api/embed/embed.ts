import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { FormatError, LimitError, UsageError } from "../../base/errors.ts";
import { printable } from "../../base/text.ts";
import type { Sink } from "../../bytes/sink.ts";
import type { Embedder } from "../../embedding/embedder.ts";
import type { TextEmbedder } from "../../embedding/search/embed-corpus.ts";
import type { NumberedText } from "../../embedding/texts.ts";
import { cosineSimilarity } from "../../embedding/vectors.ts";
import { encodeNpyHeader } from "../../model/values/npy.ts";
import { type Request, requestOf, type VerbHost } from "../host.ts";
import type { Input } from "../inputs.ts";
import {
  choiceRule,
  inputRule,
  integerRule,
  listOf,
  type OneOrMany,
  type OptionRules,
  switchRule,
  textRule,
  WRITE_RULES,
  type WriteOptions,
} from "../options.ts";
import { type Destination, destinationOf, type Output, writeOne } from "../outputs.ts";
import { startProgress } from "../progress.ts";
import { corpusOf, numberedText, textsOf } from "./corpus.ts";
import { ENCODING_RULES, type EncodingOptions, type LoadedEmbedder, loadFor } from "./load.ts";
import { type SearchHit, type SearchRequest, searchCorpus, shortest } from "./search.ts";

/** Options of `embed`: the command's flags. */
export interface EmbedOptions extends WriteOptions, EncodingOptions {
  /** More texts: one a line, or a `.jsonl` file. They follow those that are given. */
  readonly file?: Input | undefined;
  /** The cosine of two texts, or of every pair of more. */
  readonly similarity?: boolean | undefined;
  /** Ranks these texts, or the lines of a file, or of the text files below a folder, by how close they are to the one text. */
  readonly search?: readonly string[] | Input | undefined;
  /** With `search`: what empty lines separate is one text, and not each line. */
  readonly paragraphs?: boolean | undefined;
  /** With `search`: the closest lines; 5 if absent. */
  readonly top?: number | undefined;
  /** Writes the vectors to `output`: as a NumPy file, or as cpp_embedder's. */
  readonly as?: "npy" | "binary" | undefined;
  readonly output?: Output | undefined;
  /** `tare/node` only. With `search`: the path of a file that keeps the vectors for the next time. */
  readonly index?: string | undefined;
}

/** Vectors, as numbers: the one place where a result is not plain JSON. */
export interface EmbedResult {
  readonly model: string;
  readonly dimension: number;
  readonly texts: readonly string[];
  /** One for each text, in their order. */
  readonly vectors: readonly Float32Array<ArrayBuffer>[];
}

export interface SimilarityResult {
  readonly model: string;
  readonly dimension: number;
  readonly texts: readonly string[];
  /** Of two texts. */
  readonly similarity?: number;
  /** Of each text with each. */
  readonly similarities: readonly (readonly number[])[];
}

export interface SearchResult {
  readonly model: string;
  readonly dimension: number;
  readonly query: string;
  /** Closest first. */
  readonly results: readonly SearchHit[];
  readonly corpus: { readonly lines: number; readonly embedded: number; readonly reused: number };
}

export interface EmbedFileResult {
  readonly model: string;
  readonly dimension: number;
  readonly count: number;
  readonly output: string;
  readonly byteLength: number;
}

export type AnyEmbedResult = EmbedResult | SimilarityResult | SearchResult | EmbedFileResult;

/** What the command line tells beside the result. */
export interface EmbedHooks extends Pick<SearchRequest, "onIndex"> {
  readonly onLoaded?: ((embedder: Embedder) => void) | undefined;
}

const RULES: OptionRules = {
  ...WRITE_RULES,
  ...ENCODING_RULES,
  file: inputRule,
  similarity: switchRule,
  search: inputRule,
  paragraphs: switchRule,
  top: integerRule(1, 1_000_000),
  as: choiceRule("npy", "binary"),
  output: inputRule,
  index: textRule,
};

/** Closest lines of a search, if `top` does not say. */
const DEFAULT_TOP = 5;
/** Texts that go to the model at once: enough for every core, few enough for progress that moves. */
const BATCH = 256;
/** Most bytes for all vectors, which are held until the last one is done. Nearly three million vectors of MiniLM. */
const MAX_VECTOR_BYTES = 4 * 2 ** 30;

export async function embed(
  host: VerbHost,
  weights: Input,
  texts: OneOrMany<string>,
  options: EmbedOptions = {},
  hooks: EmbedHooks = {},
): Promise<AnyEmbedResult> {
  const request = await requestOf(host, "embed", options, RULES);
  const given = checkTexts(texts);
  checkChoice(request, given);
  const { search, file, output } = request;
  const place = output === undefined ? undefined : await destinationOf(host, output, request);
  const name = place?.fileName ?? `vectors.${request.as === "npy" ? "npy" : "bin"}`;
  await place?.checkAbsent([name]);
  // Texts come first: what is wrong with them is told before a large model is read.
  const numbered = search === undefined ? given.map(numberedText) : await searchedTexts(host, search, request);
  if (file !== undefined) for (const text of await textsOf(host, file, request)) numbered.push(text);
  if (request.similarity === true && numbered.length < 2) throw tooFew(numbered.length);
  const loaded = await loadFor(host, weights, { ...request, threads: undefined } as Request);
  const watched = new WatchedEmbedder(loaded.embedder, request);
  try {
    hooks.onLoaded?.(loaded.embedder);
    checkVectors(numbered.length, loaded.embedder.dimension);
    const job = { host, request, loaded, watched, texts: numbered };
    if (search !== undefined) return await searched(job, given[0] as string, hooks);
    const result = await embedded(job);
    if (request.similarity === true) return similarTo(result);
    if (place === undefined) return result;
    return await written(result, { place, name, request });
  } finally {
    watched.report();
    await loaded.embedder.close();
  }
}

async function searchedTexts(
  host: VerbHost,
  search: readonly string[] | Input,
  request: Request<EmbedOptions>,
): Promise<NumberedText[]> {
  const unit = request.paragraphs === true ? "paragraph" : "line";
  return corpusOf(host, Array.isArray(search) ? checkTexts(search) : search, request, unit);
}

function checkTexts(texts: unknown): readonly string[] {
  const list = listOf(texts as OneOrMany<string>) ?? [];
  if (list.every((text) => typeof text === "string")) return list;
  throw new UsageError("usage/option-value", "Cannot embed: texts must be text, or a list of texts", {
    source: "embed",
    path: "texts",
  });
}

/** One kind of result, and what belongs to it. */
function checkChoice(options: EmbedOptions, texts: readonly string[]): void {
  const { as, output, similarity, search, top, index, file, paragraphs } = options;
  const shapes = [as, similarity === true ? similarity : undefined, search].filter((shape) => shape !== undefined);
  if (shapes.length > 1) throw wrong('the options "as", "similarity" and "search" exclude each other', "as");
  if (as !== undefined && output === undefined) throw missing("output", 'the option "as" writes to it');
  if (output !== undefined && as === undefined) throw missing("as", 'the option "output" is for vectors in a file');
  if (search === undefined) {
    for (const [name, value] of Object.entries({ top, index, paragraphs })) {
      if (value !== undefined) throw missing("search", `the option "${name}" is about it`);
    }
    return;
  }
  if (file !== undefined) throw wrong('the corpus is the option "search", so there is no option "file"', "file");
  if (texts.length !== 1) throw wrong(`a search has one query, found ${texts.length} texts`, "texts");
}

function missing(name: string, why: string): UsageError {
  const message = `Cannot embed without the option "${name}": ${why}`;
  return new UsageError("usage/option-missing", message, { source: "embed", path: name });
}

function wrong(why: string, name: string): UsageError {
  return new UsageError("usage/option-value", `Cannot embed: ${why}`, { source: "embed", path: name });
}

function tooFew(count: number): UsageError {
  const found = count === 1 ? "one text" : "no texts";
  const message = `Cannot compare ${found}: the option similarity must have two or more`;
  return new UsageError("usage/arguments", message, { source: "embed", path: "texts" });
}

function checkVectors(count: number, dimension: number): void {
  const byteLength = count * dimension * Float32Array.BYTES_PER_ELEMENT;
  if (byteLength <= MAX_VECTOR_BYTES) return;
  const message = `Cannot hold the vectors of ${count} texts: must take <= ${MAX_VECTOR_BYTES} bytes, found ${byteLength}`;
  throw new LimitError("limit/budget", message, { source: "texts" }, { hint: "Embed the texts in parts" });
}

interface EmbedJob {
  readonly host: VerbHost;
  readonly request: Request<EmbedOptions>;
  readonly loaded: LoadedEmbedder;
  readonly watched: TextEmbedder;
  readonly texts: readonly NumberedText[];
}

async function embedded({ request, loaded, watched, texts }: EmbedJob): Promise<EmbedResult> {
  const { signal, onProgress } = request;
  const plain = texts.map(({ text }) => text);
  const total = plain.reduce((sum, { length }) => sum + length, 0);
  const progress = startProgress({ label: "embedding", total }, onProgress);
  const vectors: Float32Array<ArrayBuffer>[] = [];
  for (let start = 0; start < plain.length; start += BATCH) {
    signal?.throwIfAborted();
    const batch = plain.slice(start, start + BATCH);
    for (const vector of await watched.embed(batch)) vectors.push(vector as Float32Array<ArrayBuffer>);
    progress.add(batch.reduce((sum, { length }) => sum + length, 0));
  }
  progress.end();
  return { model: loaded.label, dimension: watched.dimension, texts: plain, vectors };
}

async function searched(job: EmbedJob, query: string, { onIndex }: EmbedHooks): Promise<SearchResult> {
  const { host, request, loaded, watched, texts } = job;
  const { compat = "bert", normalize } = request;
  // Vectors that were made with other settings cannot be compared.
  const settings = `${compat}, ${loaded.embedder.maxTokens} tokens, ${normalize === false ? "pooled" : "normalized"}`;
  const { results, corpus } = await searchCorpus(host, {
    ...request,
    settings,
    query,
    onIndex,
    embedder: watched,
    lines: texts,
    top: request.top ?? DEFAULT_TOP,
  });
  return { model: loaded.label, dimension: watched.dimension, query, results, corpus };
}

function similarTo({ model, dimension, texts, vectors }: EmbedResult): SimilarityResult {
  const similarities = vectors.map((a) => vectors.map((b) => shortest(cosineSimilarity(a, b))));
  const pair = texts.length === 2 ? { similarity: similarities[0]?.[1] ?? 0 } : {};
  return { model, dimension, texts, ...pair, similarities };
}

async function written(
  { model, dimension, vectors }: EmbedResult,
  { place, name, request }: { readonly place: Destination; readonly name: string; readonly request: EmbedOptions },
): Promise<EmbedFileResult> {
  const pieces = [
    request.as === "npy" ? npyHeader(vectors.length, dimension) : binaryHeader(vectors.length, dimension),
  ];
  for (const vector of vectors) pieces.push(littleEndian(vector));
  const byteLength = pieces.reduce((sum, piece) => sum + piece.byteLength, 0);
  if (request.dryRun !== true) await writeOne(place, name, (sink) => writePieces(sink, pieces));
  const output = place.fileName === undefined ? place.pathOf(name) : place.label;
  return { model, dimension, count: vectors.length, output, byteLength };
}

/** A NumPy file: float32, (n, dimension). */
function npyHeader(count: number, dimension: number): Bytes {
  return encodeNpyHeader("F32", [count, dimension], "vectors");
}

/** cpp_embedder's file: u32 count, u32 dimension, then the values as float32, little-endian. */
function binaryHeader(count: number, dimension: number): Bytes {
  const header = new Uint8Array(8);
  const view = new DataView(header.buffer);
  view.setUint32(0, count, true);
  view.setUint32(4, dimension, true);
  return header;
}

/** Every machine that runs WebAssembly is little-endian. */
function littleEndian(values: Float32Array<ArrayBuffer>): Bytes {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}

/** Vectors are short: this many of them are written together. */
const VECTORS_AT_ONCE = 4096;

async function writePieces(sink: Sink, pieces: readonly Bytes[]): Promise<void> {
  for (let i = 0; i < pieces.length; i += VECTORS_AT_ONCE) {
    await sink.append(concatBytes(pieces.slice(i, i + VECTORS_AT_ONCE)));
  }
}

/** Refuses vectors that are not finite, and tells what the embedder noticed about the texts. */
class WatchedEmbedder implements TextEmbedder {
  readonly dimension: number;
  readonly #embedder: Embedder;
  readonly #request: EmbedOptions;
  /** Notes that loading has told. */
  readonly #told: ReadonlySet<string>;

  constructor(embedder: Embedder, request: EmbedOptions) {
    this.dimension = embedder.dimension;
    this.#embedder = embedder;
    this.#request = request;
    this.#told = new Set(embedder.notes);
  }

  async embed(texts: readonly string[]): Promise<readonly Float32Array[]> {
    const vectors = await this.#embedder.embed(texts, { signal: this.#request.signal });
    const bad = vectors.findIndex((vector) => !vector.every(Number.isFinite));
    if (bad >= 0) throw notFinite(texts[bad] ?? "");
    return vectors;
  }

  report(): void {
    for (const note of this.#embedder.notes) if (!this.#told.has(note)) this.#request.onNote?.(note);
  }
}

/** Such values would be null in JSON, and no text is close to such a vector. */
function notFinite(text: string): FormatError {
  const shown = JSON.stringify(printable(text.slice(0, 40)));
  const message = `Cannot embed ${shown}: values of its vector must be finite, found NaN or infinity`;
  const hint = "Look for NaN in the weights with: tare stats";
  return new FormatError("format/embed.not-finite", message, { source: "encoder" }, { hint });
}
