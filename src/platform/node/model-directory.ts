import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { SourceError, UsageError } from "../../base/errors.ts";
import { formatForName } from "../../formats/registry.ts";
import { fileError } from "./errors.ts";

/** "model-00002-of-00005.safetensors", as Hugging Face and llama.cpp number the files of one model. */
const NUMBERED = /^(.*)-(\d{5})-of-(\d{5})(\.[a-z.]+)$/i;

/** The file to open for a directory: the one model in it. Several are a question, none is an error. */
export async function findModelIn(directory: string): Promise<string> {
  const names = await listNames(directory);
  const here = chooseCandidates(names);
  const candidates = here.length > 0 ? here : await listExports(directory);
  const [only, second] = candidates;
  if (only === undefined) throw nothingFound(directory, names);
  if (second === undefined) return join(directory, only);
  throw new UsageError(
    "usage/ambiguous-target",
    `Cannot choose: the directory holds ${candidates.length} models`,
    {
      source: directory,
    },
    { hint: `Name one of them: ${candidates.map((name) => join(directory, name)).join("  ")}` },
  );
}

/** Whole models among the names: an index stands for its shards, a first part for the later ones. */
export function chooseCandidates(names: readonly string[]): string[] {
  const sets = names.filter((name) => name.toLowerCase().endsWith(".aeroset.json")).sort();
  // The parts of a set are whole files of their own and have no common stem, so a set stands for all of them.
  if (sets.length > 0) return sets.includes("model.aeroset.json") ? ["model.aeroset.json"] : sets;
  const known = preferWritable(names.filter((name) => formatForName(name) !== undefined).sort());
  const indexes = known.filter((name) => name.endsWith(".json"));
  // The manifest of an APR set has the extension of its shards.
  const manifests = known.filter((name) => /\.apr$/i.test(name) && !NUMBERED.test(name));
  const stems = new Set([...indexes, ...manifests].map((name) => name.slice(0, name.indexOf("."))));
  const firstParts = new Set(known.filter((name) => NUMBERED.exec(name)?.[2] === "00001").map(setOf));
  return known.filter((name) => {
    const numbered = NUMBERED.exec(name);
    if (numbered === null) return true;
    const [, stem = "", number] = numbered;
    if (stems.has(stem)) return false;
    return number === "00001" || !firstParts.has(setOf(name));
  });
}

/** Beside a model in another format an ONNX export is a copy for running it: only alone it is the model. */
function preferWritable(names: readonly string[]): readonly string[] {
  const writable = names.filter((name) => formatForName(name)?.access !== "read");
  return writable.length > 0 ? writable : names;
}

/** Exports stand in a folder of their own, below the tokenizer: "onnx/model.onnx", beside copies in smaller types. */
async function listExports(directory: string): Promise<readonly string[]> {
  const names = await listNames(join(directory, "onnx")).catch(() => []);
  const found = chooseCandidates(names).map((name) => join("onnx", name));
  const usual = join("onnx", "model.onnx");
  return found.includes(usual) ? [usual] : found;
}

function setOf(name: string): string {
  return name.replace(NUMBERED, "$1-of-$3$4");
}

async function listNames(directory: string): Promise<string[]> {
  try {
    const entries = await readdir(directory, { withFileTypes: true });
    return entries.filter((entry) => !entry.isDirectory() && !entry.name.startsWith(".")).map((entry) => entry.name);
  } catch (error) {
    throw fileError(error, "list the directory", { source: directory });
  }
}

function nothingFound(directory: string, names: readonly string[]): SourceError {
  const message =
    names.length === 0
      ? "Cannot find a model: the directory has no files"
      : `Cannot find a model among the ${names.length} files of the directory`;
  return new SourceError(
    "source/no-model",
    message,
    { source: directory },
    {
      hint: "Name a file; content decides its format, whatever the extension",
    },
  );
}
