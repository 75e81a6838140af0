import { readdir, realpath, stat } from "node:fs/promises";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import { SourceError, UsageError } from "../../../base/errors.ts";
import { checkRelativeName } from "../../../bytes/resolver.ts";
import { formatForName } from "../../../formats/registry.ts";
import type { Container } from "../../../model/archive.ts";
import { fileError, fullPath } from "../errors.ts";
import { isInside } from "../files/directory.ts";
import { isHidden } from "../serve/paths.ts";

/** A file to be uploaded. */
export interface PushFile {
  readonly path: string;
  /** Its name below the destination, with forward slashes. */
  readonly name: string;
}

/** "inside": links count only if they stay in the folder, as in `tare serve`; "follow": all links count. */
export type LinkRule = "inside" | "follow";

/** The files of a folder to upload. */
export interface FolderFiles {
  readonly files: readonly PushFile[];
  /** Links that lead out of the folder or to a hidden file, by name: they were skipped. */
  readonly outside: readonly string[];
}

/** All files of a folder and below it, without hidden ones; an index comes after the files that it refers to. */
export async function listFolder(folder: string, links: LinkRule): Promise<FolderFiles> {
  const files: PushFile[] = [];
  const outside: string[] = [];
  let entries: Awaited<ReturnType<typeof readEntries>>;
  try {
    entries = await readEntries(folder, links);
  } catch (error) {
    throw fileError(error, `Cannot list "${folder}"`, { source: folder });
  }
  for (const { path, kind } of entries) {
    const name = relative(folder, path).split(sep).join("/");
    if (kind === "other" || name.split("/").some(isHidden)) continue;
    if (kind === "outside") outside.push(name);
    else {
      checkRelativeName(name, { source: folder });
      files.push({ path, name });
    }
  }
  if (files.length > 0) return { files: indexLast(files), outside };
  const found = outside.length === 0 ? "it has no files" : "it has only links that lead out of it";
  throw new SourceError(
    "source/not-found",
    `Cannot push "${folder}": ${found}`,
    { source: folder },
    outside.length === 0 ? {} : { hint: LINK_HINT },
  );
}

interface FolderEntry {
  readonly path: string;
  readonly kind: "file" | "outside" | "other";
}

async function readEntries(folder: string, links: LinkRule): Promise<FolderEntry[]> {
  const root = await realpath(folder);
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return Promise.all(
    entries.map(async (entry): Promise<FolderEntry> => {
      const path = join(entry.parentPath, entry.name);
      if (!entry.isSymbolicLink()) return { path, kind: entry.isFile() ? "file" : "other" };
      // A link to a file is that file; links to folders are not followed, since they may go in circles.
      const isFile = (await stat(path).catch(() => undefined))?.isFile() === true;
      if (!isFile) return { path, kind: "other" };
      return { path, kind: links === "follow" || (await staysInside(root, path)) ? "file" : "outside" };
    }),
  );
}

/** A link inside the folder may still lead to a hidden name. */
async function staysInside(root: string, link: string): Promise<boolean> {
  const real = await realpath(link);
  return isInside(root, real) && !relative(root, real).split(sep).some(isHidden);
}

/** The files of a model with several files: the named one, and those beside it that it refers to. */
export async function listSet(path: string, container: Container, links: LinkRule): Promise<PushFile[]> {
  const root = await realpath(dirname(path));
  const files = new Map<string, PushFile>([[basename(path), { path, name: basename(path) }]]);
  for (const { label } of container.parts) {
    if (/^[a-z][a-z0-9+.-]+:\/\//i.test(label)) throw remoteError(path, label);
    const found = await realpath(fullPath(label)).catch(() => realpath(resolve(dirname(path), label)));
    // Without this file, an incomplete set would be uploaded as if it were whole.
    if (!isInside(root, found)) {
      if (links === "inside") throw linkError(path, label);
      files.set(basename(label), { path: found, name: basename(label) });
      continue;
    }
    const name = relative(root, found).split(sep).join("/");
    files.set(name, { path: found, name });
  }
  return indexLast([...files.values()]);
}

/** Readers find a set by its index: once the index is visible, everything else must be there. */
function indexLast(files: readonly PushFile[]): PushFile[] {
  const isIndex = ({ name }: PushFile): boolean =>
    name.endsWith(".json") && formatForName(basename(name)) !== undefined;
  const sorted = [...files].sort((a, b) => (a.name < b.name ? -1 : 1));
  return [...sorted.filter((file) => !isIndex(file)), ...sorted.filter(isIndex)];
}

const LINK_HINT = "Pass the option followLinks to upload what they lead to";

function linkError(path: string, label: string): UsageError {
  const message = `Cannot push "${path}": "${label}", a file of the set, is a link that leads out of its folder`;
  return new UsageError("usage/push-link", message, { source: path }, { hint: LINK_HINT });
}

function remoteError(path: string, label: string): UsageError {
  return new UsageError(
    "usage/push-remote",
    `Cannot push "${path}": a file of the set is elsewhere ("${label}")`,
    { source: path },
    { hint: "Get the whole set first: tare pull" },
  );
}
