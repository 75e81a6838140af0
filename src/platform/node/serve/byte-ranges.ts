/** Positions are inclusive, as on the wire. */
export interface ByteRange {
  readonly first: number;
  readonly last: number;
}

export type RangeVerdict =
  | { readonly kind: "whole" }
  | { readonly kind: "ranges"; readonly ranges: readonly ByteRange[] }
  | { readonly kind: "unsatisfiable" };

/** A request with more ranges gets the whole file: RFC 9110 §14.2 warns of many small ranges. */
const MAX_RANGES = 32;

const WHOLE: RangeVerdict = { kind: "whole" };
const UNSATISFIABLE: RangeVerdict = { kind: "unsatisfiable" };

/**
 * What a Range header asks of a file of this length (RFC 9110 §14.1.2, §14.2). Units other than bytes are ignored. A
 * malformed set is unsatisfiable: its sender does not expect the whole of a large file.
 */
export function judgeRange(header: string, byteLength: number): RangeVerdict {
  const match = /^\s*([!#$%&'*+.^_`|~0-9a-z-]+)=(.*)$/i.exec(header);
  if (match === null || match[1]?.toLowerCase() !== "bytes") return WHOLE;
  // Empty elements of a list are allowed (RFC 9110 §5.6.1.2).
  const specs = (match[2] ?? "").split(",").flatMap((spec) => spec.trim() || []);
  if (specs.length === 0) return UNSATISFIABLE;
  if (specs.length > MAX_RANGES) return WHOLE;
  const ranges: ByteRange[] = [];
  for (const spec of specs) {
    const range = resolveSpec(spec, byteLength);
    if (range === "malformed") return UNSATISFIABLE;
    if (range === "empty") return WHOLE;
    if (range !== undefined) ranges.push(range);
  }
  if (ranges.length === 0) return UNSATISFIABLE;
  const total = ranges.reduce((sum, { first, last }) => sum + last - first + 1, 0);
  // Overlapping ranges must not make a reply longer than the file.
  return total > byteLength && ranges.length > 1 ? WHOLE : { kind: "ranges", ranges };
}

/** Undefined if the range starts after the end. Numbers too long for a double only grow, and are cut to the length. */
function resolveSpec(spec: string, byteLength: number): ByteRange | "malformed" | "empty" | undefined {
  const match = /^(\d*)-(\d*)$/.exec(spec);
  const [, from = "", to = ""] = match ?? [];
  if (from === "" && to === "") return "malformed";
  if (from === "") {
    const suffix = Number(to);
    if (suffix === 0) return undefined;
    // Satisfiable by definition, but Content-Range cannot express an empty range.
    if (byteLength === 0) return "empty";
    return { first: Math.max(0, byteLength - suffix), last: byteLength - 1 };
  }
  const first = Number(from);
  const last = to === "" ? Number.POSITIVE_INFINITY : Number(to);
  if (last < first) return "malformed";
  return first < byteLength ? { first, last: Math.min(last, byteLength - 1) } : undefined;
}
