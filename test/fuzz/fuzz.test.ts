import { beforeAll, describe, expect, test } from "vitest";
import { FORMATS } from "../../src/formats/registry.ts";
import { type Corpus, loadCorpus } from "./corpus.ts";
import { inputOf } from "./fuzzer.ts";
import { expectNoFailure } from "./no-failure.ts";
import { Random } from "./random.ts";

/** Small enough for every run of the tests; fuzz.slow.test.ts tries 2000, and `npm run fuzz` goes on from there. */
const TRIALS = { inputs: 300, outcomes: 5 };

let corpus: Corpus;
beforeAll(async () => {
  corpus = await loadCorpus();
});

describe("fuzz()", () => {
  test.each(FORMATS.map(({ id }) => id))("%s: damaged files give a model or a located error", async (id) => {
    await expectNoFailure(corpus, id, TRIALS);
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
