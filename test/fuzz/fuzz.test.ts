import { beforeAll, describe, expect, test } from "vitest";
import { FORMATS } from "../../src/formats/registry.ts";
import { type Corpus, loadCorpus } from "./corpus.ts";
import { fuzz, inputOf } from "./fuzzer.ts";
import { Random } from "./random.ts";

/** Small enough for every run of the tests; `npm run fuzz` goes on from here. */
const INPUTS = 2000;
const SEED = 1;

let corpus: Corpus;
beforeAll(async () => {
  corpus = await loadCorpus();
}, 60_000); // every file as every format: a few seconds on an idle machine

describe("fuzz()", () => {
  test.each(FORMATS.map(({ id }) => id))("%s: damaged files give a model or a located error", async (id) => {
    const report = await fuzz(corpus, { seed: SEED, formats: [id], goOn: (count) => count < INPUTS });
    expect(report.failures.map(({ index, problem }) => ({ index, problem }))).toEqual([]);
    expect(report.count).toBe(INPUTS);
    // Inputs that are all refused, or all fine, would prove little.
    expect(report.outcomes.get("ok")).toBeGreaterThan(INPUTS / 20);
    expect(report.outcomes.size).toBeGreaterThan(10);
  });
  test("every format has files to start from", () => {
    for (const { id } of FORMATS) expect(corpus.get(id)?.length, id).toBeGreaterThan(2);
    expect(() => inputOf(corpus, 0, { seed: 1, formats: ["no-such-format"] })).toThrow(/no files to start from/);
  });
  test("the same seed gives the same inputs, another one does not", () => {
    const formats = FORMATS.map(({ id }) => id);
    const make = (seed: number) => Array.from({ length: 50 }, (_, i) => inputOf(corpus, i, { seed, formats }).input);
    expect(make(7)).toEqual(make(7));
    expect(make(7)).not.toEqual(make(8));
  });
});

describe("Random", () => {
  test("spreads its numbers and never leaves the bound", () => {
    const random = new Random(3);
    const seen = new Map<number, number>();
    for (let i = 0; i < 10_000; i++) {
      const value = random.below(10);
      seen.set(value, (seen.get(value) ?? 0) + 1);
    }
    expect([...seen.keys()].sort()).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(Math.min(...seen.values())).toBeGreaterThan(800);
  });
});
