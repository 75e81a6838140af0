import { LimitError, type Location } from "./errors.ts";

export interface LimitEntry {
  readonly default: number;
  readonly unit: "bytes" | "characters" | "entries" | "levels" | "dimensions";
  /** Why there is a bound, and why this one. */
  readonly reason: string;
  /** "spec" if the format's specification states the limit, "tare" if it is our choice. */
  readonly provenance: "spec" | "tare";
}

export type LimitTable = Readonly<Record<string, LimitEntry>>;

/** The values in force for one format: every entry of its table, overridden or not. */
export type Limits<T extends LimitTable = LimitTable> = { readonly [K in keyof T]: number };

/** Overrides by format id, then by limit name: `{ gguf: { headerBytes: 1e9 } }`. */
export type LimitOverrides = Readonly<Record<string, Readonly<Record<string, number>>>>;

export function defineLimits<const T extends LimitTable>(table: T): T {
  return table;
}

export function resolveLimits<T extends LimitTable>(id: string, table: T, overrides: LimitOverrides = {}): Limits<T> {
  const own = Object.hasOwn(overrides, id) ? overrides[id] : undefined;
  const resolved: Record<string, number> = {};
  for (const [name, entry] of Object.entries(table)) {
    resolved[name] = own !== undefined && Object.hasOwn(own, name) ? (own[name] ?? entry.default) : entry.default;
  }
  return resolved as Limits<T>;
}

/** Refuses a declared quantity above its limit, before anything is allocated for it. */
export function checkLimit(value: number, limit: number, what: string, code: `limit/${string}`, at: Location): void {
  if (value <= limit) return;
  throw new LimitError(code, `Cannot accept ${what}: must be <= ${limit}, found ${value}`, at, {
    hint: "Raise the limit with the option limits if you trust this file",
  });
}
