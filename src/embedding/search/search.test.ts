import fc from "fast-check";
import { expect, test } from "vitest";
import { isTareError } from "../../base/errors.ts";
import { memoryOutput, memorySource } from "../../bytes/memory.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { cosineSimilarity, dotProduct, normalizeVector, vectorNorm } from "../vectors.ts";
import { type CorpusIndex, identifyEmbedder, readCorpusIndex, sameIdentity, writeCorpusIndex } from "./corpus-index.ts";
import { embedCorpus, type TextEmbedder } from "./embed-corpus.ts";
import { rankVectors, VectorTable } from "./rank.ts";

const engine = portableEngine();

/** Counts letters, so that texts with the same letters are alike. Remembers its inputs. */
function letterEmbedder(scale = 1): TextEmbedder & { readonly asked: string[] } {
  const asked: string[] = [];
  const one = (text: string): Float32Array => {
    const vector = new Float32Array(26);
    for (const character of text.toLowerCase()) {
      const letter = character.charCodeAt(0) - 97;
      if (letter >= 0 && letter < 26) vector[letter] = (vector[letter] as number) + scale;
    }
    return vector;
  };
  return {
    dimension: 26,
    asked,
    embed: (texts) => {
      asked.push(...texts);
      return Promise.resolve(texts.map(one));
    },
  };
}

async function indexOf(texts: readonly string[], embedder: TextEmbedder): Promise<CorpusIndex> {
  const { indexed } = await embedCorpus(embedder, texts, { engine });
  return { ...indexed, identity: await identifyEmbedder(embedder, "test") };
}

async function fileOf(index: CorpusIndex): Promise<Uint8Array<ArrayBuffer>> {
  const output = memoryOutput("corpus.idx");
  await writeCorpusIndex(index, output, engine);
  return output.files.get("corpus.idx") as Uint8Array<ArrayBuffer>;
}

async function codeOf(action: Promise<unknown>): Promise<string> {
  const error: unknown = await action.catch((reason: unknown) => reason);
  return isTareError(error) ? error.code : `no error of ours: ${String(error)}`;
}

test("similarity: cosine, norm and dot product", () => {
  const [a, b] = [Float32Array.of(3, 4), Float32Array.of(4, 3)];
  expect(dotProduct(a, b)).toBe(24);
  expect(vectorNorm(a)).toBe(5);
  expect(cosineSimilarity(a, b)).toBeCloseTo(0.96, 12);
  expect(cosineSimilarity(a, Float32Array.of(-3, -4))).toBe(-1);
  expect(cosineSimilarity(a, Float32Array.of(0, 0))).toBe(0);
  expect([...normalizeVector(a)]).toEqual([Math.fround(0.6), Math.fround(0.8)]);
  expect([...normalizeVector(Float32Array.of(0, 0))]).toEqual([0, 0]);
  expect(vectorNorm(normalizeVector(Float32Array.of(0, 1e-15)))).toBeCloseTo(1e-3, 9);
  expect(() => dotProduct(a, Float32Array.of(1))).toThrow("must have one length, found 2 and 1");
});

test("rankVectors() gives the same as sorting everything", () => {
  const rows = fc.array(fc.array(fc.integer({ min: -3, max: 3 }), { minLength: 3, maxLength: 3 }), { maxLength: 40 });
  const check = (vectors: readonly (readonly number[])[], top: number): void => {
    const query = Float32Array.of(1, 2, -1);
    const table = new VectorTable(3, Float32Array.from(vectors.flat()));
    // Divide in the same order, so that ties are exact on both sides.
    const scoreOf = (vector: Float32Array): number =>
      vectorNorm(vector) === 0 ? 0 : dotProduct(vector, query) / vectorNorm(vector) / vectorNorm(query);
    const all = vectors.map((vector, index) => ({ index, score: scoreOf(Float32Array.from(vector)) }));
    const wanted = all.sort((a, b) => b.score - a.score || a.index - b.index).slice(0, top);
    const found = rankVectors(query, table, top);
    expect(found.map(({ index }) => index)).toEqual(wanted.map(({ index }) => index));
    for (const [i, { score }] of found.entries()) expect(score).toBeCloseTo(wanted[i]?.score ?? 2, 12);
  };
  fc.assert(fc.property(rows, fc.integer({ min: 0, max: 10 }), check), { numRuns: 200 });
});

test("rankVectors() never returns a vector with NaN", () => {
  const table = new VectorTable(2, Float32Array.of(Number.NaN, 1, 0, 0, -1, 0));
  expect(rankVectors(Float32Array.of(1, 0), table, 5)).toEqual([
    { index: 1, score: 0 },
    { index: 2, score: -1 },
  ]);
});

test("embedCorpus() embeds equal texts once and takes known vectors", async () => {
  const embedder = letterEmbedder();
  const first = await embedCorpus(embedder, ["ab", "cd", "ab", ""], { engine });
  expect(embedder.asked).toEqual(["ab", "cd", ""]);
  expect(first.rows).toEqual([0, 1, 0, 2]);
  expect(first.state).toBe("changed");
  const again = await embedCorpus(embedder, ["ab", "cd", "ab", ""], { engine, known: first.indexed });
  expect(again).toMatchObject({ embedded: 0, state: "as known" });
  const edited = await embedCorpus(embedder, ["cd", "ef"], { engine, known: first.indexed });
  expect(edited).toMatchObject({ embedded: 1, state: "changed" });
  expect(embedder.asked.slice(3)).toEqual(["ef"]);
  expect([...edited.indexed.vectors.row(0)]).toEqual([...first.indexed.vectors.row(1)]);
});

test("embedCorpus() stops between batches when the signal aborts", async () => {
  const controller = new AbortController();
  const embedder = letterEmbedder();
  const texts = Array.from({ length: 600 }, (_, i) => `text ${i}`);
  const options = { engine, signal: controller.signal, onProgress: () => controller.abort() };
  await expect(embedCorpus(embedder, texts, options)).rejects.toThrow("aborted");
  expect(embedder.asked).toHaveLength(256);
});

test("an index is read as it was written", async () => {
  const index = await indexOf(["one", "two", "three"], letterEmbedder());
  const read = await readCorpusIndex(memorySource(await fileOf(index), "corpus.idx"), engine);
  expect([...read.vectors.values]).toEqual([...index.vectors.values]);
  expect([...read.digests]).toEqual([...index.digests]);
  expect(read.vectors.count).toBe(3);
  expect(sameIdentity(read.identity, index.identity)).toBe(true);
});

test("an index of an empty corpus can be read", async () => {
  const read = await readCorpusIndex(memorySource(await fileOf(await indexOf([], letterEmbedder()))), engine);
  expect([read.vectors.count, read.vectors.dimension]).toEqual([0, 26]);
});

test("readCorpusIndex() finds every flipped byte, and throws only our errors", async () => {
  const bytes = await fileOf(await indexOf(["one", "two"], letterEmbedder()));
  for (let i = 0; i < bytes.byteLength; i++) {
    const damaged = bytes.slice();
    damaged[i] = (damaged[i] as number) ^ 0x11;
    const outcome: unknown = await readCorpusIndex(memorySource(damaged), engine).catch((error: unknown) => error);
    if (outcome instanceof Error) expect(isTareError(outcome), `byte ${i}: ${outcome.message}`).toBe(true);
    // Only the text of the settings may change unnoticed. Then the index does not count as one of this model.
    else expect((outcome as CorpusIndex).identity.settings, `byte ${i}`).not.toBe("test");
  }
});

test("readCorpusIndex() recognises an index that was cut short", async () => {
  const bytes = await fileOf(await indexOf(["one", "two"], letterEmbedder()));
  for (const length of [bytes.byteLength - 1, 300, 60]) {
    expect(await codeOf(readCorpusIndex(memorySource(bytes.slice(0, length)), engine))).toBe("format/index.damaged");
  }
});

test("readCorpusIndex() refuses other files, other versions and tables that do not belong together", async () => {
  const index = await indexOf(["one"], letterEmbedder());
  const bytes = await fileOf(index);
  const edit = (from: string, to: string): Uint8Array<ArrayBuffer> => {
    const text = Buffer.from(bytes).toString("latin1").replace(from, to);
    return new Uint8Array(Buffer.from(text, "latin1"));
  };
  expect(await codeOf(readCorpusIndex(memorySource(new Uint8Array(100)), engine))).toBe("unsupported/index.foreign");
  expect(await codeOf(readCorpusIndex(memorySource(edit("tare.index", "some.thing")), engine))).toBe(
    "unsupported/index.foreign",
  );
  expect(await codeOf(readCorpusIndex(memorySource(edit('"1"', '"2"')), engine))).toBe("unsupported/index.version");
  expect(await codeOf(readCorpusIndex(memorySource(edit('"vectors"', '"vector2"')), engine))).toBe(
    "format/index.shape",
  );
  const wide = { ...index, identity: { ...index.identity, probe: new Float32Array(3) } };
  expect(await codeOf(readCorpusIndex(memorySource(await fileOf(wide)), engine))).toBe("format/index.shape");
});

test("sameIdentity() tells other models and other settings apart, but not rounding", async () => {
  const own = await identifyEmbedder(letterEmbedder(), "max 256");
  expect(sameIdentity(own, await identifyEmbedder(letterEmbedder(), "max 256"))).toBe(true);
  expect(sameIdentity(own, await identifyEmbedder(letterEmbedder(1 + 1e-7), "max 256"))).toBe(true);
  expect(sameIdentity(own, await identifyEmbedder(letterEmbedder(1.001), "max 256"))).toBe(false);
  expect(sameIdentity(own, await identifyEmbedder(letterEmbedder(), "max 128"))).toBe(false);
});
