import { existsSync, opendirSync, statSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { basename, dirname, isAbsolute, join } from "node:path";
import { errnoOf, type Location, SourceError, UsageError } from "../../base/errors.ts";
import { editDistance } from "../../base/nearest.ts";
import { chooseCandidates } from "../../formats/registry.ts";
import { fileError, isWorkingDirectoryGone, workingDirectoryError } from "./errors.ts";

/** What folders have: the model in one, and names near to one that is missing. */

/** A folder can have any number of names; these are enough to find a slip of the hand. */
const MAX_NAMES = 20_000;
const MAX_NEAR = 3;
/** How Hugging Face and llama.cpp number the files of one model: "model-00002-of-00005.gguf". */
const NUMBERED = /^(.*)-(\d{5})-of-(\d{5})(\.[^.]+)?$/;

/** As `fileError`, for a file that the user named: if it is not there, the hint says what is near it. */
export function namedFileError(error: unknown, action: string, at: Location, path: string = at.source): unknown {
  const named = fileError(error, action, at);
  const isMissing = ["ENOENT", "ENOTDIR"].includes(errnoOf(error) ?? "");
  if (!isMissing || !(named instanceof SourceError) || named.hint !== undefined) return named;
  const inside = pathInVault(path);
  const near = inside === undefined ? nearPaths(path) : [inside];
  if (near.length === 0) return named;
  const hint = `Did you mean ${near.map((one) => `"${one}"`).join(" or ")}?`;
  return new SourceError(named.code, named.message, at, { hint, cause: error });
}

/** What may be meant if a path goes on after the name of a vault, as if that were a folder: "v.aerovault::models/a.gguf". */
function pathInVault(path: string): string | undefined {
  const [, vault, inner] = /^(.*?\.aerovault)[/:](?!:)(.+)$/.exec(path) ?? [];
  return vault !== undefined && isFile(vault) ? `${vault}::${inner}` : undefined;
}

function isFile(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
  } catch {
    return false; // only a hint depends on it
  }
}

/** Up to three paths that may be meant by one that is not there. If its folder is not there either, near folders have it. */
function nearPaths(path: string): string[] {
  const [folder, wanted] = [dirname(path), basename(path)];
  const names = namesIn(folder);
  if (names !== undefined) return nearNamesOf(wanted, names).map((name) => join(folder, name));
  if (folder === dirname(folder)) return [];
  return nearPaths(folder)
    .map((near) => join(near, wanted))
    .filter((near) => existsSync(near));
}

/** Up to three names that may be meant, the nearest first. A set that is named without its numbers is all that is meant. */
export function nearNamesOf(wanted: string, names: readonly string[]): string[] {
  const candidates = wholeModels(wanted, names).filter((name) => wanted.startsWith(".") || !name.startsWith("."));
  const set = candidates.filter((name) => isSetOf(wanted, name)).sort();
  if (set.length > 0) return set.slice(-1);
  return candidates
    .map((name) => ({ name, distance: distanceTo(wanted, name) }))
    .filter(({ distance }) => distance !== undefined)
    .sort((a, b) => (a.distance as number) - (b.distance as number) || (a.name < b.name ? -1 : 1))
    .slice(0, MAX_NEAR)
    .map(({ name }) => name);
}

/** Of each numbered set only the first file; none of the set whose missing file was named. */
function wholeModels(wanted: string, names: readonly string[]): readonly string[] {
  const setOf = (name: string): string | undefined => {
    const [, stem, , total, extension = ""] = NUMBERED.exec(name) ?? [];
    return stem === undefined ? undefined : `${stem}-${total}${extension}`;
  };
  const known = new Set([setOf(wanted)]);
  return [...names].sort().filter((name) => {
    const set = setOf(name);
    if (set === undefined) return true;
    const isNew = !known.has(set);
    known.add(set);
    return isNew;
  });
}

/** True for the first file, or the index, of a model in several files that was named as if it were one. */
function isSetOf(wanted: string, name: string): boolean {
  const [, stem, , , extension = ""] = NUMBERED.exec(name) ?? [];
  if (stem !== undefined) return wanted === `${stem}${extension}` || wanted === stem;
  return name === `${wanted}.index.json` || (name.startsWith(`${wanted}.`) && name.endsWith(".index.json"));
}

/** How far a name is from what was typed; undefined if it cannot be meant. */
function distanceTo(wanted: string, name: string): number | undefined {
  const [typed, candidate] = [wanted.toLowerCase(), name.toLowerCase()];
  if (typed === candidate) return 0;
  if (stemOf(typed) === stemOf(candidate)) return 0.5; // another extension, or one that was left out
  const stem = stemOf(typed);
  if (stem.length < 3) return undefined;
  // A third of the letters may be wrong, as for flags and commands.
  const edits = editDistance(typed, candidate);
  if (edits <= Math.max(1, Math.floor(stem.length / 3))) return edits;
  return candidate.startsWith(stem) ? stem.length : undefined;
}

function stemOf(name: string): string {
  const cut = name.lastIndexOf(".");
  return cut > 0 ? name.slice(0, cut) : name;
}

/** Undefined for a folder that is not there, or that cannot be listed. */
function namesIn(folder: string): string[] | undefined {
  const names: string[] = [];
  try {
    const directory = opendirSync(folder);
    try {
      for (let entry = directory.readSync(); entry !== null && names.length < MAX_NAMES; entry = directory.readSync()) {
        names.push(entry.name);
      }
    } finally {
      directory.closeSync();
    }
    return names;
  } catch {
    return undefined; // the error that led here says already that the file is not there
  }
}

/** The file to open for a directory: the one model in it. Several models, or none, are an error. */
export async function findModelIn(directory: string): Promise<string> {
  const names = await listNames(directory);
  const here = chooseCandidates(names);
  const candidates = here.length > 0 ? here : await listExports(directory);
  const [only, second] = candidates;
  if (only === undefined) {
    // If the working directory was removed, reading it gives an empty folder: say that it is gone.
    if (!isAbsolute(directory) && isWorkingDirectoryGone())
      throw workingDirectoryError("Cannot find a model", directory);
    throw nothingFound(directory, names);
  }
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

/** Exports have their own folder below the tokenizer: "onnx/model.onnx", beside copies in smaller types. */
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
