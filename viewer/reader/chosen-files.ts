import { SourceError } from "../../src/base/errors.ts";
import { blobSource } from "../../src/bytes/blob.ts";
import { checkRelativeName, isFolderOfKind, type Resolver } from "../../src/bytes/resolver.ts";
import type { Source } from "../../src/bytes/source.ts";
import { chooseCandidates } from "../../src/formats/registry.ts";
import type { ChosenFile, OpenRequest } from "../shared/protocol.ts";
import type { Place } from "./open-targets.ts";

/** The whole models among files that were dropped together, by path. A single file counts as one, with any name. */
export function candidatesAmong(files: readonly ChosenFile[]): readonly string[] {
  const [only, second] = files;
  if (only !== undefined && second === undefined) return [only.path];
  const folders = new Map<string, string[]>();
  for (const { path } of files) {
    const folder = folderOf(path);
    const names = folders.get(folder) ?? [];
    names.push(path.slice(folder.length));
    folders.set(folder, names);
  }
  const sorted = [...folders].sort(([a], [b]) => a.length - b.length || (a < b ? -1 : 1));
  return sorted.flatMap(([folder, names]) => chooseCandidates(names).map((name) => folder + name));
}

/** Finds the file to open among the chosen ones; `watched` wraps every source that is read. */
export function openChosen(
  { files, primary }: Extract<OpenRequest, { readonly kind: "files" }>,
  watched: (source: Source) => Source,
): Place {
  const byPath = new Map(files.map(({ path, file }) => [path, file]));
  const path = primary ?? candidatesAmong(files)[0] ?? "";
  const file = byPath.get(path);
  if (file === undefined) throw new Error(`"${path}" is none of the chosen files`);
  const open = (found: File, label: string): Source => watched(blobSource(found, label));
  const resolver = chosenResolver(byPath, path, open);
  return { source: open(file, path), resolver, name: resolver.name, place: "local", requests: () => 0 };
}

/** Reaches the files that were chosen together with `path`, in its folder and below. */
export function chosenResolver(
  files: ReadonlyMap<string, File>,
  path: string,
  open: (file: File, label: string) => Source = blobSource,
): Resolver {
  const folder = folderOf(path);
  const parent = folder.slice(0, -1);
  const above = isFolderOfKind(parent.slice(parent.lastIndexOf("/") + 1))
    ? chosenResolver(files, `${folderOf(parent)}.`, open)
    : undefined;
  return {
    name: path.slice(folder.length),
    ...(above === undefined ? {} : { above }),
    async resolve(name) {
      checkRelativeName(name, { source: path });
      const file = files.get(folder + name);
      if (file !== undefined) return open(file, folder + name);
      const message = `Cannot find "${name}" among the chosen files`;
      throw new SourceError(
        "source/not-found",
        message,
        { source: folder + name },
        { hint: "Choose the whole folder" },
      );
    },
  };
}

function folderOf(path: string): string {
  return path.slice(0, path.lastIndexOf("/") + 1);
}
