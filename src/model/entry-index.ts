import { UsageError } from "../base/errors.ts";
import { printable } from "../base/text.ts";
import type { Entry } from "./archive.ts";
import { nearNames } from "./model.ts";

/** Finds the entries of an archive by their paths. */
export class EntryIndex<E extends Entry> {
  readonly #byPath: ReadonlyMap<string, E>;
  readonly #label: string;

  constructor(entries: readonly E[], label: string) {
    this.#byPath = new Map(entries.map((entry) => [entry.path, entry]));
    this.#label = label;
  }

  /** By the first of these spellings that there is; `usage/entry-not-found` names the first, with near ones as the hint. */
  find(path: string, ...spellings: readonly string[]): E {
    for (const spelling of [path, ...spellings]) {
      const found = this.#byPath.get(spelling);
      if (found !== undefined) return found;
    }
    const near = nearNames(path, this.#byPath.keys());
    const hint =
      near.length === 0
        ? "List the entries with: tare ls"
        : `Did you mean ${near.map((name) => `"${printable(name)}"`).join(", ")}?`;
    const at = { source: this.#label };
    throw new UsageError("usage/entry-not-found", `Cannot find "${printable(path)}" in the vault`, at, { hint });
  }
}

/** The error for reading a directory. */
export function notAFile(path: string, source: string): UsageError {
  const message = `Cannot read "${printable(path)}": it is a directory of the vault, not a file`;
  return new UsageError("usage/not-a-file", message, { source }, { hint: "List it with: tare ls" });
}
