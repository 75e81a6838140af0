import type { Metadata, MetadataValue } from "../metadata.ts";

/**
 * The reserved metadata entry in which a conversion keeps what the target format has no place for, so that converting
 * back gives the same bytes. A reader that does not know tare sees one extra key.
 */
export const ORIGIN_KEY = "tare.origin";

/**
 * Characters of a header or of metadata that a format's facts carry as it is. A longer text is not carried: the copy
 * would be longer than all metadata of most models.
 */
export const MAX_CARRIED_TEXT = 16 << 20;

/** Plain JSON: types, order and header facts, never weights. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
export type OriginFacts = { readonly [key: string]: Json };

export interface OriginLink {
  readonly format: string;
  /** What the format's own writer needs to write the same file again. The format's `describe` makes it. */
  readonly facts: OriginFacts;
  /**
   * Present if the link stays in the chain although the model goes back to an earlier format, because the format's
   * writer would not write these facts by itself: another program put them into the file. "returned": it went back.
   */
  readonly stays?: "unusual" | "returned";
}

/**
 * One metadata entry as it was. `[key]` is held natively as a string. `[key, type]` is held natively as text of that
 * type. `[key, type, encoding, data]` is not held natively, so this entry has its value (origin-metadata.ts). `[key,
 * "added", value]` is not the model's: the writer added it, with this value if it is there.
 */
export type CarriedEntry =
  | readonly [key: string]
  | readonly [key: string, type: string]
  | readonly [key: string, type: "added", value: string]
  | readonly [key: string, type: string, encoding: string, data: Json];

/** The real type and shape of a tensor that the file holds as plain bytes. */
export type CarriedTensor = readonly [name: string, dtype: string, shape: readonly number[]];

export interface Origin {
  /** Newest first: GGUF → SafeTensors → AERO leaves AERO with (safetensors, gguf). */
  readonly chain: readonly OriginLink[];
  /** Present if the file does not hold every entry as it was; lists all of them, in order. */
  readonly entries?: readonly CarriedEntry[];
  readonly tensors?: readonly CarriedTensor[];
  /**
   * Present if the file lists its tensors in another order: `order[i]` is the place in the file of the tensor that was
   * i-th.
   */
  readonly order?: readonly number[];
}

/** `Origin.order` for a file that lists these names as `written`; undefined if nothing moved. */
export function orderFor(names: readonly string[], written: readonly string[]): readonly number[] | undefined {
  if (names.length !== written.length || names.every((name, i) => name === written[i])) return undefined;
  const places = new Map(written.map((name, place) => [name, place]));
  const order = names.map((name) => places.get(name) ?? -1);
  return order.includes(-1) ? undefined : order;
}

/** The items in their earlier order; unchanged if the order does not fit them. */
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

/** The facts that a writer of `format` may use, and the links that it must keep for others. */
export interface SplitChain {
  /** The link with the writer's own facts. */
  readonly link: OriginLink | undefined;
  readonly own: OriginFacts | undefined;
  readonly keep: readonly OriginLink[];
}

/**
 * Splits a chain for a writer of `format`. A set that carries the facts of the file it was cut from gives two links in
 * a row; `which` says if the writer wants the set's or the file's.
 */
export function splitChain(chain: readonly OriginLink[], format: string, which: "set" | "file" = "set"): SplitChain {
  const first = chain.findIndex((link) => link.format === format);
  if (first < 0) return { link: undefined, own: undefined, keep: chain };
  let last = first;
  while (which === "file" && chain[last + 1]?.format === format) last++;
  const link = chain[last];
  const newer = chain.slice(0, first);
  // A model that went back has not come from there: the links in front are what it was before, not steps on the way.
  const kept = link?.stays === "returned" ? newer : lasting(newer);
  return { link, own: link?.facts, keep: [...kept, ...chain.slice(last + 1)] };
}

/**
 * The links that stay when the model goes back to what it was before them. The others are intermediate steps: a writer
 * that takes the same step again gives the same file.
 */
export function lasting(links: readonly OriginLink[]): readonly OriginLink[] {
  return links.flatMap((link) => (isLasting(link) ? [{ ...link, stays: "returned" as const }] : []));
}

function isLasting({ stays }: OriginLink): boolean {
  return stays === "unusual" || stays === "returned";
}

/**
 * Renames tensors inside the facts of a chain. In facts, any list whose rows begin with text, such as `quants`, has
 * tensor names there.
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
  return chain.map((link) => ({ ...link, facts: rename(link.facts, 0) as OriginFacts }));
}

/**
 * Removes everything from the chain that describes file layout. The rest are keys that writers added to those of the
 * format. They belong to the model, even if its tensors change.
 */
export function furtherInChain(chain: readonly OriginLink[]): readonly OriginLink[] {
  return chain.flatMap((link) => {
    const further = link.facts["further"];
    return further === undefined ? [] : [{ ...link, facts: { further } }];
  });
}

export function encodeOrigin(origin: Origin): string {
  return JSON.stringify(origin);
}

/** No value of any format nests deeper. A deeper text could only exhaust the stack. */
const MAX_DEPTH = 64;

/** Undefined if the text is not an origin that we wrote; it is then ordinary metadata. */
export function parseOrigin(text: string): Origin | undefined {
  if (depthOf(text) > MAX_DEPTH) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined; // a foreign value under our key
  }
  return isOrigin(value) ? value : undefined;
}

/** Splits a model's metadata into the model's own entries and the origin it carries. */
export function takeOrigin(metadata: Metadata): { readonly metadata: Metadata; readonly origin: Origin | undefined } {
  const value: MetadataValue | undefined = metadata.get(ORIGIN_KEY);
  const origin = value?.type === "string" ? parseOrigin(value.value) : undefined;
  return origin === undefined ? { metadata, origin } : { metadata: metadata.without(ORIGIN_KEY), origin };
}

/** Names of the encodings of values, in the entries and in those that a link keeps from an earlier form. */
export function encodingsIn({ chain, entries = [] }: Origin): ReadonlySet<string> {
  const lists: readonly Json[] = [entries as readonly Json[], ...chain.map(({ facts }) => facts["entries"] ?? [])];
  const rows = lists.flatMap((list) => (Array.isArray(list) ? (list as readonly Json[]) : []));
  const names = rows.map((row) => (Array.isArray(row) && row.length === 4 ? (row as readonly Json[])[2] : undefined));
  return new Set(names.filter((name) => typeof name === "string"));
}

/** Nesting depth of brackets, outside strings. */
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
