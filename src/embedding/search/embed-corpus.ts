import type { Bytes } from "../../base/bytes.ts";
import { encodeHex, encodeUtf8 } from "../../base/text.ts";
import type { Engine } from "../../primitives/engine.ts";
import { VectorTable } from "./rank.ts";

/** The part of an embedder that a search needs. */
export interface TextEmbedder {
  readonly dimension: number;
  embed(texts: readonly string[]): Promise<readonly Float32Array[]>;
}

/** SHA-256. */
export const DIGEST_BYTES = 32;

/** Texts by the SHA-256 of their UTF-8, and their vectors, row by row. */
export interface IndexedTexts {
  /** DIGEST_BYTES for each text. */
  readonly digests: Bytes;
  readonly vectors: VectorTable;
}

export interface CorpusOptions {
  readonly engine: Engine;
  /** Vectors made earlier by the same model. */
  readonly known?: IndexedTexts | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Called with the UTF-16 length of the texts that were embedded since the last call. */
  readonly onProgress?: ((length: number) => void) | undefined;
}

/** The vectors of a corpus. */
export interface EmbeddedCorpus {
  /** Every different text once, in the order of its first appearance. */
  readonly indexed: IndexedTexts;
  /** Which vector each text of the corpus has. */
  readonly rows: readonly number[];
  /** How many different texts had to be embedded. */
  readonly embedded: number;
  /** "as known" if the given index already holds exactly these vectors. */
  readonly state: "as known" | "changed";
}

/** How many texts go to the embedder at once: enough to fill every core, few enough to react to Ctrl-C. */
const BATCH = 256;

/** Embeds the texts whose vectors are not known. Embeds equal texts once. */
export async function embedCorpus(
  embedder: TextEmbedder,
  texts: readonly string[],
  options: CorpusOptions,
): Promise<EmbeddedCorpus> {
  const { engine, known, signal } = options;
  const unique = new Map<string, number>();
  const rows = texts.map((text) => {
    const row = unique.get(text) ?? unique.size;
    unique.set(text, row);
    return row;
  });
  const digests = new Uint8Array(unique.size * DIGEST_BYTES);
  for (const [text, row] of unique) {
    digests.set(await engine.digest("sha256", encodeUtf8(text)), row * DIGEST_BYTES);
    signal?.throwIfAborted();
  }
  const vectors = VectorTable.allocate(embedder.dimension, unique.size);
  const missing = takeKnown({ digests, vectors }, known);
  const list = [...unique.keys()];
  for (let start = 0; start < missing.length; start += BATCH) {
    signal?.throwIfAborted();
    const batch = missing.slice(start, start + BATCH);
    const made = await embedder.embed(batch.map((row) => list[row] as string));
    for (const [i, row] of batch.entries()) vectors.row(row).set(made[i] as Float32Array);
    options.onProgress?.(batch.reduce((sum, row) => sum + (list[row] as string).length, 0));
  }
  const state = missing.length === 0 && sameTexts(digests, known) ? "as known" : "changed";
  return { indexed: { digests, vectors }, rows, embedded: missing.length, state };
}

/** Copies known vectors and returns the rows of the unknown ones. */
function takeKnown({ digests, vectors }: IndexedTexts, known: IndexedTexts | undefined): number[] {
  const places = new Map<string, number>();
  for (let row = 0; row < (known?.vectors.count ?? 0); row++) places.set(digestAt(known?.digests, row), row);
  const missing: number[] = [];
  for (let row = 0; row < vectors.count; row++) {
    const place = places.get(digestAt(digests, row));
    if (place === undefined || known === undefined) missing.push(row);
    else vectors.row(row).set(known.vectors.row(place));
  }
  return missing;
}

function digestAt(digests: Uint8Array<ArrayBuffer> | undefined, row: number): string {
  return encodeHex(digests?.subarray(row * DIGEST_BYTES, (row + 1) * DIGEST_BYTES) ?? new Uint8Array(0));
}

function sameTexts(digests: Uint8Array, known: IndexedTexts | undefined): boolean {
  return known?.digests.length === digests.length && digests.every((byte, i) => byte === known.digests[i]);
}
