import { splitInnerPaths } from "../../bytes/resolver.ts";

/** What a TARGET on the command line names, before anything is opened. */
export interface Target {
  /** "-", a path, or a URL. */
  readonly outer: string;
  readonly kind: "stdin" | "path" | "http" | "s3" | "other-scheme";
  /** Paths inside archives, outermost first: "v.aerovault::models/a.gguf" has one. */
  readonly inner: readonly string[];
}

/**
 * `::` separates an archive from a path inside it, except within `[…]` (IPv6 hosts). The caller checks first
 * whether a file of the literal name exists, which wins.
 */
export function parseTarget(text: string): Target {
  const [outer = "", ...inner] = splitInnerPaths(text);
  return { outer, kind: kindOf(outer), inner };
}

/** The whole text as a path, for when such a file exists. */
export function literalTarget(text: string): Target {
  return { outer: text, kind: "path", inner: [] };
}

function kindOf(outer: string): Target["kind"] {
  if (outer === "-") return "stdin";
  if (/^https?:\/\//i.test(outer)) return "http";
  if (/^s3:\/\//i.test(outer)) return "s3";
  // Two letters at least: "c:" is a drive.
  return /^[a-z][a-z0-9+.-]+:\/\//i.test(outer) ? "other-scheme" : "path";
}
