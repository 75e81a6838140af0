import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { compareFacts, compareMetadata, type ModelFacts, readFacts, type TensorFact } from "./model-facts.ts";
import { Outcome } from "./outcome.ts";
import { runScript } from "./python.ts";
import { type Written, writeWithTare } from "./write-with-tare.ts";

/** A model that a foreign package wrote, and what it was given. */
export interface ForeignModel extends ModelFacts {
  readonly path: string;
}

export interface Bench {
  readonly python: string;
  readonly folder: string;
}

const EVERYTHING: readonly (keyof TensorFact)[] = ["name", "dtype", "shape", "sha256"];
/** Keys that only describe files, or that a conversion leaves. */
const OWN_KEYS = /^(tare\.origin$|split\.)/;

const formatOf = (path: string): string => (path.endsWith(".gguf") ? "gguf" : "safetensors");
const sameBytes = (a: string, b: string): string[] => (readFileSync(a).equals(readFileSync(b)) ? [] : ["bytes differ"]);

/** Round 1: we read what they write, and write it again byte for byte. */
export async function readForeign(models: readonly ForeignModel[], { folder }: Bench): Promise<Outcome> {
  const outcome = new Outcome("reading what the packages write");
  for (const model of models) {
    const found = await readFacts(model.path);
    const differences = [...compareFacts(found, model, EVERYTHING), ...compareMetadata(found, model, OWN_KEYS)];
    outcome.check(basename(model.path), differences);
    const copy = join(folder, "copies", basename(model.path));
    const written = await writeWithTare(model.path, copy, { format: formatOf(model.path) });
    outcome.check(
      `${basename(model.path)} written again`,
      written === undefined ? ["refused"] : sameBytes(copy, model.path),
    );
  }
  return outcome;
}

/** One file or set that we wrote, and what it must hold. */
interface OurModel {
  readonly what: string;
  readonly files: readonly string[];
  readonly wanted: ModelFacts;
}

/** Round 2: they read what we write; we split files and merge them again byte for byte. */
export async function writeForThem(models: readonly ForeignModel[], bench: Bench): Promise<Outcome> {
  const outcome = new Outcome("the packages reading what we write");
  const ours: OurModel[] = [];
  let refused = 0;
  let unread = 0;
  for (const model of models) {
    for (const format of ["safetensors", "gguf"]) {
      for (const maxShardBytes of [undefined, 200]) {
        const written = await writeVariant(model, { format, maxShardBytes }, bench);
        if (written === undefined) refused++;
        else ours.push(written.ours);
        if (written !== undefined) outcome.check(written.ours.what, await comeBack(written, model, bench));
      }
    }
  }
  const read = runScript<ReadModel[]>(bench.python, "read_models.py", { input: ours.map(({ files }) => files) });
  for (const [i, { what, wanted, files }] of ours.entries()) {
    const found = read[i] as ReadModel;
    if (found.error !== undefined && isKnownFailure(files, wanted)) unread++;
    else if (found.error !== undefined) outcome.check(what, [`the package fails: ${found.error}`]);
    else outcome.check(what, [...compareTensors(found, wanted, files), ...compareKept(found, wanted, files)]);
  }
  outcome.note(`${refused} conversions were refused because the target cannot hold a type, a rank or a name`);
  outcome.note(`${unread} files were not compared: gguf-py cannot read BF16 tensors without dimensions`);
  return outcome;
}

interface ReadModel extends ModelFacts {
  readonly error?: string;
}

/** gguf 0.19.0 reads the last dimension of every type without a NumPy type, BF16 among them, and fails on scalars. */
function isKnownFailure([first = ""]: readonly string[], wanted: ModelFacts): boolean {
  const hasScalar = wanted.tensors.some(({ dtype, shape }) => dtype === "BF16" && shape.length === 0);
  return hasScalar && formatOf(first) === "gguf";
}

interface Variant {
  readonly ours: OurModel;
  readonly written: Written;
  readonly base: string;
}

async function writeVariant(
  model: ForeignModel,
  { format, maxShardBytes }: { format: string; maxShardBytes: number | undefined },
  { folder }: Bench,
): Promise<Variant | undefined> {
  const kind = maxShardBytes === undefined ? "whole" : "cut";
  const base = basename(model.path).replace(".", "-");
  const path = join(folder, "ours", `${base}-${kind}.${format}`);
  const options = maxShardBytes === undefined ? { format } : { format, maxShardBytes };
  const written = await writeWithTare(model.path, path, options);
  if (written === undefined) return undefined;
  const what = `${basename(model.path)} to ${format}, ${kind}`;
  // For a SafeTensors set only the index is named: the reader finds the shards in it.
  const files = written.primary.endsWith(".index.json") ? [written.primary] : written.files;
  return { ours: { what, files, wanted: model }, written, base };
}

/** Back in the first format and in one file, the bytes are the same again. */
async function comeBack({ written, base, ours }: Variant, model: ForeignModel, { folder }: Bench): Promise<string[]> {
  const path = join(folder, "back", `${base}-${basename(written.primary)}.${formatOf(model.path)}`);
  const back = await writeWithTare(written.primary, path, { format: formatOf(model.path) });
  if (back === undefined) return [`${ours.what} does not come back`];
  return sameBytes(back.primary, model.path).map((difference) => `coming back, ${difference}`);
}

/** Types without a name in SafeTensors are stored as bytes. */
function compareTensors(found: ModelFacts, wanted: ModelFacts, files: readonly string[]): string[] {
  const isGguf = formatOf(files[0] ?? "") === "gguf";
  const known = /^(BOOL|C64|BF16|[UIF](8|16|32|64)|F8_.*)$/;
  const named = wanted.tensors.filter(({ dtype }) => isGguf || known.test(dtype));
  const names = new Set(named.map(({ name }) => name));
  const shown = { ...found, tensors: found.tensors.filter(({ name }) => names.has(name)) };
  return [
    ...compareFacts(shown, { ...wanted, tensors: named }, EVERYTHING),
    ...compareFacts(found, wanted, ["name", "sha256"]),
  ];
}

/** Between formats only strings keep their type for a foreign reader; only tare can read the rest back. */
function compareKept(found: ModelFacts, wanted: ModelFacts, files: readonly string[]): string[] {
  const isGguf = formatOf(files[0] ?? "") === "gguf";
  const fromGguf =
    wanted.metadata.some(([, type]) => type !== "string") || wanted.metadata[0]?.[0] === "general.architecture";
  if (isGguf === fromGguf) return compareMetadata(found, wanted, OWN_KEYS);
  const strings = wanted.metadata.filter(([, type]) => type === "string");
  const keys = new Set(strings.map(([key]) => key));
  const kept = found.metadata.filter(([key]) => keys.has(key));
  return compareMetadata({ ...found, metadata: kept }, { ...wanted, metadata: strings }, OWN_KEYS);
}
