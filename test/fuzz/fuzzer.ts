import { allErrors } from "../../src/catalog/index.ts";
import { measureProcessorTime } from "../support/processor-time.ts";
import type { Corpus } from "./corpus.ts";
import type { FuzzInput } from "./fuzz-input.ts";
import { mutateInput } from "./mutate.ts";
import { probe } from "./probe.ts";
import { Random } from "./random.ts";

/** Longest that one input may take, even on a busy machine. */
const SLOW_MS = 250;
/** Resident memory may grow by this much over a whole run. */
const GROWTH_BYTES = 512 << 20;
const MEMORY_EVERY = 1000;
/** Conversions cost more than looking, so that only some inputs are converted. */
const CONVERT_EVERY = 16;

export interface FuzzOptions {
  readonly seed: number;
  /** Format ids, in turn. */
  readonly formats: readonly string[];
  /** The number of the first input, and the distance to the next: runs side by side share a seed. */
  readonly first?: number;
  readonly step?: number;
  /** Asked before every input. */
  readonly goOn: (count: number) => boolean;
  /** Told the number of every input before it is tried. */
  readonly onInput?: (index: number) => void;
}

/** One input and what is done with it. */
export interface Trial {
  readonly format: string;
  readonly depth: "look" | "convert";
  readonly input: FuzzInput;
}

export interface Failure {
  readonly index: number;
  readonly format: string;
  readonly problem: string;
  readonly input: FuzzInput;
}

export interface FuzzReport {
  readonly count: number;
  /** How often each outcome was: "ok", or the code of a refusal. */
  readonly outcomes: ReadonlyMap<string, number>;
  readonly failures: readonly Failure[];
}

/** The input of a number: the same for the same seed and corpus, whatever was tried before. */
export function inputOf(
  corpus: Corpus,
  index: number,
  { seed, formats }: Pick<FuzzOptions, "seed" | "formats">,
): Trial {
  const format = formats[index % formats.length] ?? "";
  const inputs = corpus.get(format) ?? [];
  if (inputs.length === 0)
    throw new Error(`There are no files to start from for "${format}": add test/fixtures/${format}`);
  const random = new Random(seed, index);
  const depth = random.oneIn(CONVERT_EVERY) ? "convert" : "look";
  return { format, depth, input: mutateInput(inputs, random) };
}

/** Tries inputs one by one and collects what breaks the promise; stops after ten failures. */
export async function fuzz(corpus: Corpus, options: FuzzOptions): Promise<FuzzReport> {
  const codes: ReadonlySet<string> = new Set(allErrors().keys());
  const outcomes = new Map<string, number>();
  const failures: Failure[] = [];
  const { first = 0, step = 1 } = options;
  let count = 0;
  let memory: number | undefined;
  for (let index = first; options.goOn(count) && failures.length < 10; index += step) {
    options.onInput?.(index);
    const { format, input, depth } = inputOf(corpus, index, options);
    const fail = (problem: string): void => void failures.push({ index, format, problem, input });
    try {
      const outcome = await timed(() => probe(input, { codes, depth }), fail);
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    } catch (error) {
      fail(error instanceof Error ? (error.stack ?? error.message) : String(error));
    }
    count++;
    if (count % MEMORY_EVERY === 0) memory = checkMemory(memory, fail);
  }
  return { count, outcomes, failures };
}

/** Tries again what was slow: only what is slow three times is to blame, not the machine. */
async function timed(run: () => Promise<string>, fail: (problem: string) => void): Promise<string> {
  let outcome = "";
  let fastest = Number.POSITIVE_INFINITY;
  for (let i = 0; i < 3 && fastest > SLOW_MS; i++) {
    const measured = await measureProcessorTime(run);
    outcome = measured.result;
    fastest = Math.min(fastest, measured.milliseconds);
  }
  if (fastest > SLOW_MS) fail(`slow: ${Math.round(fastest)} ms, outcome ${outcome}`);
  return outcome;
}

function checkMemory(before: number | undefined, fail: (problem: string) => void): number {
  const now = process.memoryUsage().rss;
  if (before !== undefined && now > before + GROWTH_BYTES) {
    fail(`memory: grew from ${before} to ${now} bytes; this input is only the last one`);
    return now;
  }
  return before ?? now;
}
