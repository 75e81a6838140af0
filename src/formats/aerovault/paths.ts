import { AEROVAULT_LIMITS } from "./limits.ts";

/**
 * The path rules of v3 (docs/formats/aerovault.md#paths): relative, forward slashes, no "." or "..", no backslash, no NUL, no
 * drive letter, no white space at either end. A stored path must be in this form already, or the whole vault is refused.
 */

/** Unicode's White_Space: `trim` of JavaScript has U+FEFF too and lacks U+0085. */
const WHITE_SPACE = "\\u0009-\\u000d\\u0020\\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const OUTER_SPACE = new RegExp(`^[${WHITE_SPACE}]+|[${WHITE_SPACE}]+$`, "g");
const SPACE = new RegExp(`[${WHITE_SPACE}]`);

const SLASH = 0x2f;
const BACKSLASH = 0x5c;
const DOT = 0x2e;
const COLON = 0x3a;

/** The canonical form of what a person typed: outer white space and slashes go. It may still have a fault. */
export function normalizePath(path: string): string {
  return path.replace(OUTER_SPACE, "").replace(/^\/+|\/+$/g, "");
}

/**
 * Why a path cannot be stored as it is; undefined where it can. `shared` characters at its beginning are those of a path
 * that can.
 */
export function findPathFault(path: string, shared = 0): string | undefined {
  if (path === "") return "it is empty";
  // The reference asks for the second byte, so only after one of ASCII.
  if (path.charCodeAt(1) === COLON && path.charCodeAt(0) < 0x80) return "it begins with a drive letter";
  let start = shared === 0 ? 0 : path.lastIndexOf("/", shared - 1) + 1;
  for (let i = start; i <= path.length; i++) {
    const code = i === path.length ? SLASH : path.charCodeAt(i);
    if (code === 0) return "it contains NUL";
    if (code === BACKSLASH) return "it contains a backslash";
    if (code !== SLASH) continue;
    const fault = findComponentFault(path, start, i);
    if (fault !== undefined) return fault;
    start = i + 1;
  }
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

/** Why a path is more than readers take unless they are told to; undefined where it is not. Such a path is never written. */
export function findPathExcess(path: string): string | undefined {
  const { pathLength, pathDepth } = AEROVAULT_LIMITS;
  if (path.length > pathLength.default) return `it has more than ${pathLength.default} characters`;
  return depthOf(path) > pathDepth.default ? `it has more than ${pathDepth.default} components` : undefined;
}

/** The folder that holds a path; undefined at the top. */
export function parentOf(path: string): string | undefined {
  const slash = path.lastIndexOf("/");
  return slash < 0 ? undefined : path.slice(0, slash);
}

/** The order of entries in a manifest: by UTF-8 bytes, which is by code points and not by UTF-16 units. */
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

/** As `comparePaths`, where the first `shared` characters are known to be all that they have in common. */
export function compareBehind(a: string, b: string, shared: number): number {
  if (shared === a.length || shared === b.length) return a.length - b.length;
  return rank(a.charCodeAt(shared)) - rank(b.charCodeAt(shared));
}

/** Halves of surrogate pairs stand for characters above U+FFFF, so they come after U+E000 … U+FFFF. */
function rank(unit: number): number {
  if (unit < 0xd800) return unit;
  return unit < 0xe000 ? unit + 0x2000 : unit - 0x800;
}
