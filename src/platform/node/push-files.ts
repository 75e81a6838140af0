import { readdir, realpath, stat } from "node:fs/promises";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import { type ErrorCatalog, SourceError, UsageError } from "../../base/errors.ts";
import { checkRelativeName } from "../../bytes/relative-name.ts";
import { formatForName } from "../../formats/registry.ts";
import type { Container } from "../../model/container.ts";
import { isInside } from "./directory-output.ts";
import { fileError } from "./errors.ts";

/** A file to be uploaded. */
export interface PushFile {
  readonly path: string;
  /** Where it goes below the destination, with forward slashes. */
  readonly name: string;
}

/** All files of a folder and below it, without hidden ones; an index comes after what it refers to. */
export async function listFolder(folder: string): Promise<PushFile[]> {
  const files: PushFile[] = [];
  let entries: Awaited<ReturnType<typeof readEntries>>;
  try {
    entries = await readEntries(folder);
  } catch (error) {
    throw fileError(error, `Cannot list "${folder}"`, { source: folder });
  }
  for (const { path, isFile } of entries) {
    const name = relative(folder, path).split(sep).join("/");
    if (!isFile || name.split("/").some((part) => part.startsWith("."))) continue;
    checkRelativeName(name, { source: folder });
    files.push({ path, name });
  }
  if (files.length > 0) return indexLast(files);
  throw new SourceError("source/not-found", `Cannot push "${folder}": it has no files`, { source: folder });
}

async function readEntries(folder: string): Promise<{ readonly path: string; readonly isFile: boolean }[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = entries.map((entry) => ({ entry, path: join(entry.parentPath, entry.name) }));
  return Promise.all(
    paths.map(async ({ entry, path }) => {
      // A link to a file is that file; links to folders are not followed, since they may go in circles.
      const isFile = entry.isSymbolicLink() ? (await stat(path).catch(() => undefined))?.isFile() : entry.isFile();
      return { path, isFile: isFile === true };
    }),
  );
}

/** The files of a model that consists of several: the one that was named, and those beside it that it refers to. */
export async function listSet(path: string, container: Container): Promise<PushFile[]> {
  const root = await realpath(dirname(path));
  const files = new Map<string, PushFile>([[basename(path), { path, name: basename(path) }]]);
  for (const { label } of container.parts) {
    if (/^[a-z][a-z0-9+.-]+:\/\//i.test(label)) throw remoteError(path, label);
    const found = await realpath(resolve(label)).catch(() => realpath(resolve(dirname(path), label)));
    if (!isInside(root, found)) continue;
    const name = relative(root, found).split(sep).join("/");
    files.set(name, { path: found, name });
  }
  return indexLast([...files.values()]);
}

/** Readers find a set by its index: whoever sees it must find everything else. */
function indexLast(files: readonly PushFile[]): PushFile[] {
  const isIndex = ({ name }: PushFile): boolean =>
    name.endsWith(".json") && formatForName(basename(name)) !== undefined;
  const sorted = [...files].sort((a, b) => (a.name < b.name ? -1 : 1));
  return [...sorted.filter((file) => !isIndex(file)), ...sorted.filter(isIndex)];
}

function remoteError(path: string, label: string): UsageError {
  return new UsageError(
    "usage/push-remote",
    `Cannot push "${path}": a file of the set is elsewhere ("${label}")`,
    { source: path },
    { hint: "Get the whole set first: tare pull" },
  );
}

export const PUSH_ERRORS = {
  "usage/push-remote": {
    what: "A file of the set that is to be uploaded is on a server, not beside its index.",
    why: "Only files of this machine are uploaded.",
    fix: "Get the whole set with `tare pull`, then push that copy.",
  },
} as const satisfies ErrorCatalog;
