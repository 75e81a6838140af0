import { FormatError, type Location } from "../base/errors.ts";
import { printable } from "../base/text.ts";
import { findPathExcess, parentOf } from "./aerovault/paths.ts";

/** Characters of a path in a message. */
const MAX_SHOWN = 200;

/** A path as an older vault has it. */
export interface StoredPath {
  readonly path: string;
  readonly type: "file" | "directory";
}

/**
 * Refuses the whole vault for a path that leads out of it, that stands there twice, or that is a file and the folder of
 * another entry: nobody can tell what else its writer did. `place` says where a path stands.
 */
export function checkStoredPaths(
  entries: readonly StoredPath[],
  code: `format/${string}`,
  place: (index: number) => Location,
): void {
  const known = new Map<string, StoredPath["type"]>();
  for (const [i, { path, type }] of entries.entries()) {
    const fault = findUnsafePath(path) ?? (known.has(path) ? "it is there twice" : undefined);
    if (fault !== undefined) throw badPath(path, fault, code, place(i));
    known.set(path, type);
  }
  const folders = new Set<string>();
  for (const [i, { path }] of entries.entries()) {
    for (let folder = parentOf(path); folder !== undefined && !folders.has(folder); folder = parentOf(folder)) {
      folders.add(folder);
      if (known.get(folder) !== "file") continue;
      throw badPath(path, `"${printable(folder)}" is a file, not its folder`, code, place(i));
    }
  }
}

/**
 * What no file system could hold below a folder, or would hold elsewhere. Less than version 3 refuses: backslashes, drive
 * letters and outer white space are names on some systems, and older programs stored them.
 */
export function findUnsafePath(path: string): string | undefined {
  if (path === "") return "it is empty";
  if (path.includes("\0")) return "it contains NUL";
  if (path.startsWith("/")) return "it begins with a slash";
  // Looking at each folder of a path must stay cheap.
  const excess = findPathExcess(path);
  if (excess !== undefined) return excess;
  const bad = path.split("/").find((part) => part === "" || part === "." || part === "..");
  if (bad === undefined) return undefined;
  return bad === "" ? "it has an empty component" : `it has a "${bad}" component`;
}

function badPath(path: string, fault: string, code: `format/${string}`, at: Location): FormatError {
  const shown = path.length > MAX_SHOWN ? `${path.slice(0, MAX_SHOWN)}…` : path;
  return new FormatError(code, `Cannot accept the path "${printable(shown)}" in a vault: ${fault}`, at);
}
