import type { Bytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import { encodeUtf8, printable } from "../../base/text.ts";
import { decodeEntered, type EnteredValue } from "../../operations/stamp.ts";

/** The option that has the values: for errors. */
interface GivenBy {
  readonly verb: string;
  readonly option: string;
}

/** Values nested deeper than this are refused: no format has such, and an object may hold itself. */
const MAX_DEPTH = 64;

/**
 * Values of JavaScript as JSON, without loss: what `JSON.stringify` would silently change or leave out is refused.
 * Members that are undefined count as not given.
 */
export function encodeJsonObject(values: Readonly<Record<string, unknown>>, by: GivenBy): Bytes {
  const given = Object.entries(values).filter(([, value]) => value !== undefined);
  const members = given.map(([key, value]) => `${JSON.stringify(key)}:${jsonText(value, { ...by, key, depth: 0 })}`);
  return encodeUtf8(`{${members.join(",")}}`);
}

/** The values of the option `set` as if they were typed, by key. */
export function enteredOf(
  set: Readonly<Record<string, unknown>>,
  verb: string,
): readonly (readonly [key: string, entered: EnteredValue])[] {
  return decodeEntered(encodeJsonObject(set, { verb, option: "set" }), "set");
}

interface ValuePlace extends GivenBy {
  /** Of the value, or of the one around it. */
  readonly key: string;
  readonly depth: number;
}

/** Numbers are integers where they have no fraction, as when they are typed. */
function jsonText(value: unknown, at: ValuePlace): string {
  if (at.depth > MAX_DEPTH) throw unholdable(at, `values within values, at most ${MAX_DEPTH} deep`);
  if (value === null || typeof value === "boolean" || typeof value === "bigint") return String(value);
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "number") {
    if (!Number.isFinite(value)) throw unholdable(at, "a finite number");
    return Object.is(value, -0) ? "-0" : String(value);
  }
  const within = { ...at, depth: at.depth + 1 };
  const items = itemsOf(value);
  if (items !== undefined) return `[${items.map((item) => jsonText(item, within)).join(",")}]`;
  if (!isPlain(value)) throw unholdable(at, "null, a boolean, a number, text, an array or a plain object");
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${jsonText(member, within)}`).join(",")}}`;
}

function itemsOf(value: unknown): readonly unknown[] | undefined {
  if (Array.isArray(value)) return Array.from(value as readonly unknown[]);
  const isNumbers = ArrayBuffer.isView(value) && !(value instanceof DataView);
  return isNumbers ? Array.from(value as Uint8Array) : undefined;
}

function isPlain(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function unholdable({ verb, option, key }: ValuePlace, must: string): UsageError {
  const message = `Cannot ${verb}: the value of "${printable(key)}" in the option ${option} must be ${must}`;
  return new UsageError("usage/option-value", message, { source: verb, path: option });
}
