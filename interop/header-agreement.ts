import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { concatBytes } from "../src/base/bytes.ts";
import { isTareError } from "../src/base/errors.ts";
import { memorySource } from "../src/bytes/memory.ts";
import { reader } from "../src/formats/safetensors/read.ts";
import { portableEngine } from "../src/primitives/portable.ts";
import { JsonScanner } from "../src/struct/json-scanner.ts";
import { readNode } from "../src/struct/strict-json.ts";
import { patternBytes, rawSafetensors } from "../test/builders/safetensors.ts";
import { mutateJson } from "../test/fuzz/json-mutations.ts";
import { Random } from "../test/fuzz/random.ts";
import { Outcome } from "./outcome.ts";
import { runScript } from "./python.ts";
import type { Bench } from "./rounds.ts";

const HEADERS = [
  '{"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[4],"data_offsets":[8,12]}}',
  '{"__metadata__":{"k":"v","n":"2"},"a":{"dtype":"BF16","shape":[3,2],"data_offsets":[0,12]}}',
  '{"a":{"dtype":"F4","shape":[4],"data_offsets":[0,2]},"z":{"dtype":"F32","shape":[0],"data_offsets":[2,2]},"b":{"dtype":"I16","shape":[5],"data_offsets":[2,12]}}',
  '{ "a" : {"shape":[],"extra":[1,{"x":null}],"data_offsets":[0,8],"dtype":"F64"} , "b":["I32",[1],[8,12]] }',
];
const DATA_BYTES = 12;

/** docs/formats/safetensors.md, "Deviations": what tare refuses and the reference implementation accepts. */
const STRICTER = new Set([
  "format/safetensors.duplicate-key",
  "limit/integer",
  "format/overflow",
  "limit/safetensors.dimensions",
]);

/** Round 3: both accept and refuse the same damaged headers, except for the documented deviations. */
export async function compareVerdicts(bench: Bench, options: { seed: number; count: number }): Promise<Outcome> {
  const outcome = new Outcome("damaged SafeTensors headers");
  const folder = join(bench.folder, "damaged");
  mkdirSync(folder);
  const headers = Array.from({ length: options.count }, (_, i) => damagedHeader(new Random(options.seed, i)));
  const paths = headers.map((header, i) => {
    const path = join(folder, `${i}.safetensors`);
    writeFileSync(path, concatBytes([rawSafetensors(header), patternBytes(DATA_BYTES)]));
    return path;
  });
  const theirs = runScript<(string | null)[]>(bench.python, "accepts.py", { input: paths });
  const stricter = new Map<string, number>();
  let accepted = 0;
  for (const [i, header] of headers.entries()) {
    const ours = await refusalOf(header);
    const their = theirs[i] ?? undefined;
    if (ours === undefined && their === undefined) accepted++;
    outcome.check(header.slice(0, 300), disagreement(header, { ours, theirs: their }, stricter));
  }
  outcome.note(`${accepted} accepted by both`);
  for (const [code, times] of stricter) outcome.note(`${times} times only tare refuses, as documented: ${code}`);
  return outcome;
}

interface Verdicts {
  readonly ours: string | undefined;
  readonly theirs: string | undefined;
}

function disagreement(header: string, { ours, theirs }: Verdicts, stricter: Map<string, number>): string[] {
  if ((ours === undefined) === (theirs === undefined)) return [];
  if (ours === undefined) return [`tare accepts it, the reference does not: ${theirs}`];
  // The reference never reads the first of two values, so it may be wrong in any way.
  const reason = repeatsKey(header) ? "format/safetensors.duplicate-key" : ours;
  if (!STRICTER.has(reason)) return [`the reference accepts it, tare refuses it with ${ours}`];
  stricter.set(reason, (stricter.get(reason) ?? 0) + 1);
  return [];
}

function repeatsKey(header: string): boolean {
  const scanner = new JsonScanner(header, { source: "damaged", offset: 8, what: "header" });
  try {
    scanner.skipSpace();
    readNode(scanner, 10_000);
    return false;
  } catch (error) {
    return isTareError(error) && error.code === "format/json.duplicate-key";
  }
}

function damagedHeader(random: Random): string {
  let header = random.pick(HEADERS);
  for (let rounds = 1 + random.below(2); rounds > 0; rounds--) header = mutateJson(header, random);
  return header;
}

/** The code with which the format itself refuses the file; recognising files is tested elsewhere. */
async function refusalOf(header: string): Promise<string | undefined> {
  const source = memorySource(concatBytes([rawSafetensors(header), patternBytes(DATA_BYTES)]), "damaged");
  try {
    await reader.open(source, { engine: portableEngine(), limits: {} });
    return undefined;
  } catch (error) {
    if (isTareError(error)) return error.code;
    throw error;
  }
}
