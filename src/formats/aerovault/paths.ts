import { FormatError, type Location } from "../../base/errors.ts";
import { isWellFormed, printable } from "../../base/text.ts";
import type { Steps } from "../../base/turns.ts";
import { AEROVAULT_LIMITS } from "./limits.ts";

/**
 * The path rules of v3 (docs/formats/aerovault.md#paths): relative, forward slashes, no "." or "..", no backslash, no NUL, no
 * drive letter, no white space at either end, and well-formed Unicode. A stored path must be in this form already, or the whole vault is refused.
 */

/** Unicode's White_Space: `trim` of JavaScript also has U+FEFF, and lacks U+0085. */
const WHITE_SPACE = "\\u0009-\\u000d\\u0020\\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const OUTER_SPACE = new RegExp(`^[${WHITE_SPACE}]+|[${WHITE_SPACE}]+$`, "g");
const SPACE = new RegExp(`[${WHITE_SPACE}]`);

const SLASH = 0x2f;
const BACKSLASH = 0x5c;
const DOT = 0x2e;
const COLON = 0x3a;

/** A typed path without outer slashes, for an entry that is made or changed. It may still have a fault. */
export function withoutSlashes(path: string): string {
  return path.replace(/^\/+|\/+$/g, "");
}

/** The form in which a typed path is looked for: without outer white space and slashes. */
export function normalizePath(path: string): string {
  return withoutSlashes(path.replace(OUTER_SPACE, ""));
}

/**
 * Why a path cannot be stored as it is; undefined if it can. The first `shared` characters are those of a path that
 * can.
 */
export function findPathFault(path: string, shared = 0): string | undefined {
  if (path === "") return "it is empty";
  // The reference looks at the second byte, so this applies only after an ASCII character.
  if (path.charCodeAt(1) === COLON && path.charCodeAt(0) < 0x80) return "it begins with a drive letter";
  let start = shared === 0 ? 0 : path.lastIndexOf("/", shared - 1) + 1;
  let units: "plain" | "surrogates" = "plain";
  for (let i = start; i <= path.length; i++) {
    const code = i === path.length ? SLASH : path.charCodeAt(i);
    if ((code & 0xf800) === 0xd800) units = "surrogates";
    if (code === 0) return "it contains NUL";
    if (code === BACKSLASH) return "it contains a backslash";
    if (code !== SLASH) continue;
    const fault = findComponentFault(path, start, i);
    if (fault !== undefined) return fault;
    start = i + 1;
  }
  // The manifest is UTF-8. Written as an escape, half of a pair would make a vault that no reader opens.
  if (units === "surrogates" && !isWellFormed(path)) return "it has half of a surrogate pair";
  if (SPACE.test(path[0] as string) || SPACE.test(path.at(-1) as string)) return "it begins or ends with white space";
  return undefined;
}

function findComponentFault(path: string, start: number, end: number): string | undefined {
  const length = end - start;
  if (length === 0) return start === 0 ? "it begins with a slash" : "it has an empty component";
  if (length > 2 || path.charCodeAt(start) !== DOT) return undefined;
  if (length === 1) return 'it has a "." component';
  return path.charCodeAt(start + 1) === DOT ? 'it has a ".." component' : undefined;
}

/** How many components a path has. */
export function depthOf(path: string): number {
  let depth = 1;
  for (let slash = path.indexOf("/"); slash >= 0; slash = path.indexOf("/", slash + 1)) depth++;
  return depth;
}

/** Why a path exceeds the default limits of readers; undefined if it does not. Such a path is never written. */
export function findPathExcess(path: string): string | undefined {
  const { pathLength, pathDepth } = AEROVAULT_LIMITS;
  if (path.length > pathLength.default) return `it has more than ${pathLength.default} characters`;
  return depthOf(path) > pathDepth.default ? `it has more than ${pathDepth.default} components` : undefined;
}

/**
 * True for entries that tare keeps for itself: files of an add that is not finished, and of earlier states. Anything
 * else in `.tare` is an ordinary entry, and the folder itself is one only if it has such an entry.
 */
export function isReserved(path: string): boolean {
  return path === ".tare" || /^\.tare\/(?:unfinished|history)(?:\/|$)/.test(path);
}

/** The folder that holds a path; undefined at the top. */
export function parentOf(path: string): string | undefined {
  const slash = path.lastIndexOf("/");
  return slash < 0 ? undefined : path.slice(0, slash);
}

/** The order of entries in a manifest: by UTF-8 bytes, which is the order of code points and not of UTF-16 units. */
export function comparePaths(a: string, b: string): number {
  return compareBehind(a, b, sharedLength(a, b));
}

/** Characters at the beginning that two paths have in common. */
export function sharedLength(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  let i = 0;
  while (i < length && a.charCodeAt(i) === b.charCodeAt(i)) i++;
  return i;
}

/** As `comparePaths`, if exactly the first `shared` characters are known to be equal. */
export function compareBehind(a: string, b: string, shared: number): number {
  if (shared === a.length || shared === b.length) return a.length - b.length;
  return rank(a.charCodeAt(shared)) - rank(b.charCodeAt(shared));
}

/** Halves of surrogate pairs encode characters above U+FFFF, so they come after U+E000 … U+FFFF. */
function rank(unit: number): number {
  if (unit < 0xd800) return unit;
  return unit < 0xe000 ? unit + 0x2000 : unit - 0x800;
}

/** Most characters of a path in a message. */
const MAX_SHOWN = 200;

/** A path in an older vault. */
export interface StoredPath {
  readonly path: string;
  readonly type: "file" | "directory";
}

/**
 * Refuses the whole vault if a path leads out of it, occurs twice, or is both a file and the folder of another entry,
 * because we cannot know what else its writer did. `place` gives the location of a path.
 */
export function* checkStoredPaths(
  entries: readonly StoredPath[],
  code: `format/${string}`,
  place: (index: number) => Location,
): Steps<void> {
  const known = new Map<string, StoredPath["type"]>();
  for (const [i, { path, type }] of entries.entries()) {
    const fault = findUnsafePath(path) ?? (known.has(path) ? "it is there twice" : undefined);
    if (fault !== undefined) throw badPath(path, fault, code, place(i));
    known.set(path, type);
    yield;
  }
  const folders = new Set<string>();
  for (const [i, { path }] of entries.entries()) {
    yield;
    for (let folder = parentOf(path); folder !== undefined && !folders.has(folder); folder = parentOf(folder)) {
      folders.add(folder);
      if (known.get(folder) !== "file") continue;
      throw badPath(path, `"${printable(folder)}" is a file, not its folder`, code, place(i));
    }
  }
}

/**
 * Finds paths that no file system could hold below a folder, or would hold elsewhere. Refuses less than version 3 does:
 * backslashes, drive letters and outer white space are valid names on some systems, and older programs stored them.
 */
function findUnsafePath(path: string): string | undefined {
  if (path === "") return "it is empty";
  if (path.includes("\0")) return "it contains NUL";
  if (path.startsWith("/")) return "it begins with a slash";
  // Keeps it cheap to look at each folder of a path.
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
