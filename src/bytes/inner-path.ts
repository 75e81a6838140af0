/** Separates an archive from a path inside it. */
export const INNER_MARK = "::";

/** Splits "v.aerovault::a::b" into its places, outermost first. Within `[…]`, as in the address of an IPv6 host, nothing is split. */
export function splitInnerPaths(text: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let start = 0;
  for (let i = 0; i < text.length; i++) {
    if (text[i] === "[") depth++;
    else if (text[i] === "]" && depth > 0) depth--;
    else if (depth === 0 && text.startsWith(INNER_MARK, i)) {
      parts.push(text.slice(start, i));
      start = i + INNER_MARK.length;
      i++;
    }
  }
  parts.push(text.slice(start));
  return parts;
}
