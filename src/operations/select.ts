/**
 * Globs over tensor names and entry paths: `*` any run of characters, `?` one character, `[a-z]` a set,
 * `{q,k}` alternatives. A `*` crosses dots and slashes, because tensor names use either. Linear in the name's
 * length for each star, so that no pattern can hang the program.
 */
export function matchGlob(pattern: string, name: string): boolean {
  return expandBraces(pattern).some((alternative) => matchPlain(alternative, name));
}

/** True where any pattern matches, or where there are none. */
export function matchesAny(patterns: readonly string[], name: string): boolean {
  return patterns.length === 0 || patterns.some((pattern) => matchGlob(pattern, name));
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
