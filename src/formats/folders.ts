import { SourceError, UsageError } from "../base/errors.ts";
import { INNER_MARK } from "../bytes/resolver.ts";
import type { Archive, Entry } from "../model/archive.ts";
import type { Format } from "../model/format.ts";
import { candidatesAmong } from "./recognise.ts";

/** The entry of a path. A directory means the one model in it, as a folder on disk does. */
export function modelEntry(archive: Archive, path: string, formats: readonly Format[]): Entry {
  const folder = path.replace(/^\/+|\/+$/g, "");
  const isBelow = (entry: Entry): boolean => entry.path.startsWith(`${folder}/`);
  const own = archive.entries.find((entry) => entry.path === folder);
  if (folder === "" || (own === undefined ? !archive.entries.some(isBelow) : own.type === "file"))
    return archive.entry(path);
  const names = archive.entries
    .filter((entry) => entry.type === "file" && isBelow(entry))
    .map((entry) => entry.path.slice(folder.length + 1))
    .filter((name) => !name.startsWith("."));
  const here = candidatesAmong(
    names.filter((name) => !name.includes("/")),
    formats,
  );
  const candidates = here.length > 0 ? here : exportsAmong(names, formats);
  const [only, second] = candidates;
  const at = { source: `${archive.parts[0]?.label ?? archive.format}${INNER_MARK}${folder}` };
  if (only !== undefined && second === undefined) return archive.entry(`${folder}/${only}`);
  if (only === undefined) {
    const message = `Cannot find a model among the ${names.length} files of the directory`;
    const hint = "Name a file; content decides its format, whatever the extension";
    throw new SourceError("source/no-model", message, at, { hint });
  }
  const hint = `Name one of them: ${candidates.map((name) => `${at.source}/${name}`).join("  ")}`;
  const message = `Cannot choose: the directory holds ${candidates.length} models`;
  throw new UsageError("usage/ambiguous-target", message, at, { hint });
}

/** Exports have their own folder below the tokenizer: "onnx/model.onnx", beside copies in smaller types. */
function exportsAmong(names: readonly string[], formats: readonly Format[]): readonly string[] {
  const folder = "onnx/";
  const inside = names.filter((name) => name.startsWith(folder)).map((name) => name.slice(folder.length));
  const found = candidatesAmong(inside, formats).map((name) => folder + name);
  return found.includes("onnx/model.onnx") ? ["onnx/model.onnx"] : found;
}
