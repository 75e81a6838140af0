import { expect } from "vitest";
import type { Corpus } from "./corpus.ts";
import { fuzz } from "./fuzzer.ts";

const SEED = 1;

interface Trials {
  readonly inputs: number;
  /** More outcomes than this must be met. Inputs that are all refused, or all fine, would prove little. */
  readonly outcomes: number;
}

/** Tries damaged files of a format: each must give a model or a located error. */
export async function expectNoFailure(corpus: Corpus, format: string, { inputs, outcomes }: Trials): Promise<void> {
  const report = await fuzz(corpus, { seed: SEED, formats: [format], goOn: (count) => count < inputs });
  expect(report.failures.map(({ index, problem }) => ({ index, problem }))).toEqual([]);
  expect(report.count).toBe(inputs);
  expect(report.outcomes.get("ok")).toBeGreaterThan(inputs / 20);
  expect(report.outcomes.size).toBeGreaterThan(outcomes);
}
