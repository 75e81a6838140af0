import { UsageError } from "../../base/errors.ts";
import { printable } from "../../base/text.ts";
import type { Entry } from "../../model/archive.ts";
import type { Tensor } from "../../model/tensor.ts";

/**
 * Globs over tensor names and entry paths: `*` any run of characters, `?` one character, `[a-z]` a set, `{q,k}`
 * alternatives. A `*` crosses dots and slashes, because tensor names use either. Linear in the name's length for each
 * star, so that no pattern can hang the program.
 */
export function matchGlob(pattern: string, name: string): boolean {
  return expandBraces(pattern).some((alternative) => matchPlain(alternative, name));
}

/** True if a pattern matches the name, or is the name. */
export function matchesAny(patterns: readonly string[], name: string): boolean {
  return patterns.some((pattern) => pattern === name || matchGlob(pattern, name));
}

/** Patterns of names: those to take, all if there are none, and those to leave out of them. */
export interface NameSelection {
  readonly include?: readonly string[] | undefined;
  readonly exclude?: readonly string[] | undefined;
}

export function isTaken(name: string, { include = [], exclude = [] }: NameSelection): boolean {
  return (include.length === 0 || matchesAny(include, name)) && !matchesAny(exclude, name);
}

interface SelectOptions<T> {
  /** The names that select an item: its name, and for files also the directories that contain it. */
  readonly namesOf: (item: T) => readonly string[];
  readonly what: "tensor" | "entry";
  readonly label: string;
}

/** The tensors that any glob matches, or all of them without globs. */
export function selectTensors(tensors: readonly Tensor[], globs: readonly string[], label: string): readonly Tensor[] {
  return selectByName(tensors, globs, { namesOf: ({ name }) => [name], what: "tensor", label });
}

/**
 * The same of entries. "tree" also takes everything in matching directories, whether those are entries or not. Slashes
 * at the ends of globs do not matter: listings put one after directories.
 */
export function selectEntries(
  entries: readonly Entry[],
  globs: readonly string[],
  { label, reach }: { readonly label: string; readonly reach?: "tree" | undefined },
): readonly Entry[] {
  const trimmed = globs.map((glob) => glob.replace(/^\/+|\/+$/g, ""));
  const namesOf = ({ path }: Entry): readonly string[] => (reach === "tree" ? pathsTo(path) : [path]);
  return selectByName(entries, trimmed, { namesOf, what: "entry", label });
}

/** A path and the paths of the directories that contain it. */
function pathsTo(path: string): readonly string[] {
  const paths = [path];
  for (let slash = path.lastIndexOf("/"); slash > 0; slash = path.lastIndexOf("/", slash - 1)) {
    paths.push(path.slice(0, slash));
  }
  return paths;
}

/**
 * The items that any glob matches, or all items without globs; every glob must match something. An exact name also
 * matches, whatever it would mean as a glob.
 */
export function selectByName<T>(
  items: readonly T[],
  globs: readonly string[],
  { namesOf, what, label }: SelectOptions<T>,
): readonly T[] {
  if (globs.length === 0) return items;
  const idle = new Set(globs);
  const selected = items.filter((item) => {
    const matching = globs.filter((glob) => namesOf(item).some((name) => name === glob || matchGlob(glob, name)));
    for (const glob of matching) idle.delete(glob);
    return matching.length > 0;
  });
  if (idle.size > 0) throw notFound([...idle], what, label);
  return selected;
}

/** Refuses globs that match no tensor: options that change nothing are typing errors. */
export function requireMatches(tensors: readonly Tensor[], globs: readonly string[], label: string): void {
  const idle = globs.filter((glob) => !tensors.some(({ name }) => matchesAny([glob], name)));
  if (idle.length > 0) throw notFound(idle, "tensor", label);
}

function notFound(globs: readonly string[], what: "tensor" | "entry", label: string): UsageError {
  const shown = globs.map((glob) => `"${printable(glob)}"`).join(", ");
  const code = what === "tensor" ? "usage/tensor-not-found" : "usage/entry-not-found";
  const message = `Cannot find ${what === "tensor" ? "a tensor" : "an entry"} that matches ${shown}`;
  const hint = "* crosses dots and slashes; in a shell, quote the pattern";
  return new UsageError(code, message, { source: label }, { hint });
}

/** Bound on `{a,b}{c,d}…`: more alternatives than this are taken literally. */
const MAX_ALTERNATIVES = 256;

function expandBraces(pattern: string): string[] {
  let done: string[] = [pattern];
  for (;;) {
    const next: string[] = [];
    let changed = false;
    for (const text of done) {
      const match = /\{([^{}]*,[^{}]*)\}/.exec(text);
      if (match === null || next.length > MAX_ALTERNATIVES) {
        next.push(text);
        continue;
      }
      changed = true;
      for (const choice of (match[1] ?? "").split(",")) {
        next.push(text.slice(0, match.index) + choice + text.slice(match.index + match[0].length));
      }
    }
    if (!changed || next.length > MAX_ALTERNATIVES) return done;
    done = next;
  }
}

interface Token {
  readonly kind: "star" | "one";
  readonly accepts: (character: string) => boolean;
}

const ANY: Token = { kind: "one", accepts: () => true };
const STAR: Token = { kind: "star", accepts: () => true };

/** The usual two-pointer match: on a mismatch, let the last star take one character more. */
function matchPlain(pattern: string, name: string): boolean {
  const tokens = tokenize(pattern);
  const characters = [...name];
  let token = 0;
  let position = 0;
  let star = -1;
  let resume = 0;
  while (position < characters.length) {
    const current = tokens[token];
    if (current?.kind === "star") {
      star = token++;
      resume = position;
    } else if (current?.accepts(characters[position] as string) === true) {
      token++;
      position++;
    } else if (star >= 0) {
      token = star + 1;
      position = ++resume;
    } else {
      return false;
    }
  }
  while (tokens[token]?.kind === "star") token++;
  return token === tokens.length;
}

function tokenize(pattern: string): Token[] {
  const tokens: Token[] = [];
  const characters = [...pattern];
  for (let i = 0; i < characters.length; i++) {
    const character = characters[i] as string;
    const end = character === "[" ? characters.indexOf("]", i + 2) : -1;
    if (character === "*") {
      if (tokens.at(-1)?.kind !== "star") tokens.push(STAR);
    } else if (character === "?") tokens.push(ANY);
    else if (end > 0) {
      tokens.push(setToken(characters.slice(i + 1, end)));
      i = end;
    } else tokens.push({ kind: "one", accepts: (other) => other === character });
  }
  return tokens;
}

function setToken(members: readonly string[]): Token {
  const negated = members[0] === "!" || members[0] === "^";
  const body = negated ? members.slice(1) : members;
  const accepts = (character: string): boolean => {
    for (let i = 0; i < body.length; i++) {
      const low = body[i] as string;
      const high = body[i + 1] === "-" && body[i + 2] !== undefined ? (body[i + 2] as string) : undefined;
      if (high === undefined ? character === low : character >= low && character <= high) return true;
      if (high !== undefined) i += 2;
    }
    return false;
  };
  return { kind: "one", accepts: (character) => accepts(character) !== negated };
}
