import type { Metadata, MetadataValue } from "./metadata.ts";

/**
 * The reserved metadata entry in which a conversion keeps what the target format has no place for, so that
 * converting back gives the same bytes. A reader that has never heard of tare sees one extra key.
 */
export const ORIGIN_KEY = "tare.origin";

/** Plain JSON: types, order and header facts, never weights. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
export type OriginFacts = { readonly [key: string]: Json };

export interface OriginLink {
  readonly format: string;
  /** What the format's own writer needs to write the same file again; its `describe` made it. */
  readonly facts: OriginFacts;
}

/**
 * One metadata entry as it was: `[key]` is held natively as a string, `[key, type]` natively as text of that
 * type, `[key, type, encoding, data]` not at all, so its value stands here (origin-metadata.ts).
 */
export type CarriedEntry =
  | readonly [key: string]
  | readonly [key: string, type: string]
  | readonly [key: string, type: string, encoding: string, data: Json];

/** A tensor that the file holds as plain bytes: what it really is. */
export type CarriedTensor = readonly [name: string, dtype: string, shape: readonly number[]];

export interface Origin {
  /** Newest first: GGUF → SafeTensors → AERO leaves AERO with (safetensors, gguf). */
  readonly chain: readonly OriginLink[];
  /** Present where the file does not hold every entry as it was; lists all of them, in order. */
  readonly entries?: readonly CarriedEntry[];
  readonly tensors?: readonly CarriedTensor[];
  /** Present where the file lists its tensors in another order: `order[i]` is the place in it of what came i-th. */
  readonly order?: readonly number[];
}

/** `Origin.order` for a file that lists these names as `written`; undefined where nothing moved. */
export function orderFor(names: readonly string[], written: readonly string[]): readonly number[] | undefined {
  if (names.length !== written.length || names.every((name, i) => name === written[i])) return undefined;
  const places = new Map(written.map((name, place) => [name, place]));
  const order = names.map((name) => places.get(name) ?? -1);
  return order.includes(-1) ? undefined : order;
}

/** The items in the order they once had; as they are where the order does not fit them. */
export function restoreOrder<T>(items: readonly T[], order: readonly number[] | undefined): readonly T[] {
  if (order === undefined || order.length !== items.length || new Set(order).size !== order.length) return items;
  const restored: T[] = [];
  for (const place of order) {
    const item = items[place];
    if (item === undefined) return items;
    restored.push(item);
  }
  return restored;
}

/** What a writer of `format` may use, and what it must keep for others. */
export function splitChain(
  chain: readonly OriginLink[],
  format: string,
): { readonly own: OriginFacts | undefined; readonly keep: readonly OriginLink[] } {
  const at = chain.findIndex((link) => link.format === format);
  // Links before our own are stations on the way back: with the file restored, they have nothing left to say.
  return at < 0 ? { own: undefined, keep: chain } : { own: chain[at]?.facts, keep: chain.slice(at + 1) };
}

/**
 * The chain with facts of single tensors under the names that the tensors have now. Wherever facts have a list of rows
 * that begin with text, as `quants` has, that text is the name of a tensor.
 */
export function renameInChain(chain: readonly OriginLink[], names: ReadonlyMap<string, string>): readonly OriginLink[] {
  const rename = (fact: Json, depth: number): Json => {
    if (Array.isArray(fact)) {
      return (fact as readonly Json[]).map((row) => {
        if (!Array.isArray(row) || typeof row[0] !== "string") return row;
        return [names.get(row[0]) ?? row[0], ...(row as readonly Json[]).slice(1)];
      });
    }
    if (typeof fact !== "object" || fact === null || depth > 1) return fact;
    return Object.fromEntries(Object.entries(fact).map(([key, value]) => [key, rename(value, depth + 1)]));
  };
  if (names.size === 0) return chain;
  return chain.map(({ format, facts }) => ({ format, facts: rename(facts, 0) as OriginFacts }));
}

/**
 * The chain without what says how files were laid out. What is left are keys that their writers added to those of the
 * format: they belong to the model, whatever became of its tensors.
 */
export function furtherInChain(chain: readonly OriginLink[]): readonly OriginLink[] {
  return chain.flatMap(({ format, facts }) => {
    const further = facts["further"];
    return further === undefined ? [] : [{ format, facts: { further } }];
  });
}

export function encodeOrigin(origin: Origin): string {
  return JSON.stringify(origin);
}

/** No value that a format can say nests deeper; more would only serve to exhaust somebody's stack. */
const MAX_DEPTH = 64;

/** Undefined where the text is not an origin we wrote: it is then ordinary metadata. */
export function parseOrigin(text: string): Origin | undefined {
  if (depthOf(text) > MAX_DEPTH) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined; // somebody else's value under our key
  }
  return isOrigin(value) ? value : undefined;
}

/** Splits a model's metadata into what is its own and the origin it carries. */
export function takeOrigin(metadata: Metadata): { readonly metadata: Metadata; readonly origin: Origin | undefined } {
  const value: MetadataValue | undefined = metadata.get(ORIGIN_KEY);
  const origin = value?.type === "string" ? parseOrigin(value.value) : undefined;
  return origin === undefined ? { metadata, origin } : { metadata: metadata.without(ORIGIN_KEY), origin };
}

/** How deep brackets nest, outside strings. */
function depthOf(json: string): number {
  let depth = 0;
  let deepest = 0;
  let quoted = false;
  for (let i = 0; i < json.length; i++) {
    const character = json.charCodeAt(i);
    if (quoted) {
      if (character === 0x5c) i++;
      else if (character === 0x22) quoted = false;
    } else if (character === 0x22) quoted = true;
    else if (character === 0x5b || character === 0x7b) deepest = Math.max(deepest, ++depth);
    else if (character === 0x5d || character === 0x7d) depth--;
  }
  return deepest;
}

function isOrigin(value: unknown): value is Origin {
  if (!isObject(value)) return false;
  const { chain, entries, tensors, order } = value;
  return (
    Array.isArray(chain) &&
    chain.length <= 16 &&
    chain.every(isLink) &&
    (entries === undefined || (Array.isArray(entries) && entries.every(isCarriedEntry))) &&
    (tensors === undefined || (Array.isArray(tensors) && tensors.every(isCarriedTensor))) &&
    (order === undefined || (Array.isArray(order) && order.every(Number.isSafeInteger)))
  );
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isLink(value: unknown): boolean {
  return isObject(value) && typeof value["format"] === "string" && isObject(value["facts"]);
}

function isCarriedEntry(value: unknown): boolean {
  if (!Array.isArray(value) || value.length < 1 || value.length > 4) return false;
  return value.slice(0, 3).every((item) => typeof item === "string");
}

function isCarriedTensor(value: unknown): boolean {
  if (!Array.isArray(value) || value.length !== 3) return false;
  const [name, dtype, shape] = value as readonly unknown[];
  const dimensionsFine = Array.isArray(shape) && shape.every((d) => Number.isSafeInteger(d) && d >= 0);
  return typeof name === "string" && typeof dtype === "string" && dimensionsFine;
}
