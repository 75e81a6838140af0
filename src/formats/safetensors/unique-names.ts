import type { DTypeRow } from "./dtypes.ts";

/** A run per dtype is what the reference writer leaves. */
const MAX_RUNS = 22;
/** Names outside the longest run are looked up in it; where they are more than one in this many, hashing is cheaper. */
const LOOKUP_SHARE = 16;

/**
 * Finds repeated names. Files of the reference writer are sorted by dtype, then by name, and names that ascend
 * cannot repeat: watching the order costs a third of what a hash table for every name does. Other files get the
 * hash table.
 */
export class UniqueNames {
  readonly #text: string;
  readonly #runStarts: number[] = [];
  #row: DTypeRow | undefined;
  #start = 0;
  #end = 0;
  #order: "ascending" | "other" = "ascending";

  constructor(text: string) {
    this.#text = text;
  }

  /** Takes note of name number `index`, characters `start` … `end` of the text; unescaped, else see `noteEscaped`. */
  note(index: number, start: number, end: number, row: DTypeRow): void {
    if (this.#order === "other") return;
    if (row !== this.#row) {
      this.#row = row;
      if (this.#runStarts.push(index) > MAX_RUNS) this.#order = "other";
    } else if (!this.#ascends(start, end)) this.#order = "other";
    this.#start = start;
    this.#end = end;
  }

  /** For a name whose text is not the name itself. */
  noteEscaped(): void {
    this.#order = "other";
  }

  /** The number of the first name found to repeat an earlier one, or -1; `names` are all that were noted, in order. */
  findRepeated(names: readonly { readonly name: string }[]): number {
    if (this.#order === "other") return findByHash(names);
    const bounds = [...this.#runStarts, names.length];
    const runs = this.#runStarts.map((start, i) => ({ start, end: bounds[i + 1] as number }));
    const longest = runs.reduce((a, b) => (b.end - b.start > a.end - a.start ? b : a), { start: 0, end: 0 });
    const others = names.length - (longest.end - longest.start);
    if (others * LOOKUP_SHARE > names.length) return findByHash(names);
    const seen = new Set<string>();
    for (let i = 0; i < names.length; i++) {
      if (i === longest.start) i = longest.end;
      const name = names[i]?.name;
      if (name === undefined) break;
      if (seen.has(name) || isInRun(names, longest, name)) return i;
      seen.add(name);
    }
    return -1;
  }

  /** Compares with the name before, unit by unit: the engine's own comparison is slow on parts of a string. */
  #ascends(start: number, end: number): boolean {
    const text = this.#text;
    const length = Math.min(end - start, this.#end - this.#start);
    for (let k = 0; k < length; k++) {
      const before = text.charCodeAt(this.#start + k);
      const code = text.charCodeAt(start + k);
      if (code !== before) return code > before;
    }
    return end - start > this.#end - this.#start;
  }
}

function findByHash(names: readonly { readonly name: string }[]): number {
  const seen = new Set<string>();
  for (let i = 0; i < names.length; i++) {
    seen.add(names[i]?.name as string);
    if (seen.size === i) return i;
  }
  return -1;
}

interface Run {
  readonly start: number;
  readonly end: number;
}

function isInRun(names: readonly { readonly name: string }[], run: Run, wanted: string): boolean {
  let low = run.start;
  let high = run.end;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const name = names[middle]?.name as string;
    if (name === wanted) return true;
    if (name < wanted) low = middle + 1;
    else high = middle;
  }
  return false;
}
