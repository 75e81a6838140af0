import { test } from "vitest";
import { FORMATS } from "../../src/formats/registry.ts";
import { loadCorpus } from "./corpus.ts";
import { expectNoFailure } from "./no-failure.ts";

/** `npm run fuzz` goes on from here. */
const TRIALS = { inputs: 2000, outcomes: 10 };

const corpus = await loadCorpus();

test.each(FORMATS.map(({ id }) => id))("%s: damaged files give a model or a located error", async (id) => {
  await expectNoFailure(corpus, id, TRIALS);
});
