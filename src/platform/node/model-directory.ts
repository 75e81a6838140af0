import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { SourceError, UsageError } from "../../base/errors.ts";
import { chooseCandidates } from "../../formats/registry.ts";
import { fileError } from "./errors.ts";

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

/** Exports stand in a folder of their own, below the tokenizer: "onnx/model.onnx", beside copies in smaller types. */
async function listExports(directory: string): Promise<readonly string[]> {
  const names = await listNames(join(directory, "onnx")).catch(() => []);
  const found = chooseCandidates(names).map((name) => join("onnx", name));
  const usual = join("onnx", "model.onnx");
  return found.includes(usual) ? [usual] : found;
}

async function listNames(directory: string): Promise<string[]> {
  try {
    const entries = await readdir(directory, { withFileTypes: true });
    return entries.filter((entry) => !entry.isDirectory() && !entry.name.startsWith(".")).map((entry) => entry.name);
  } catch (error) {
    throw fileError(error, "Cannot list the directory", { source: directory });
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
