import { type Bytes, EMPTY_BYTES } from "../../base/bytes.ts";
import { printable } from "../../base/text.ts";
import { memorySource } from "../../bytes/memory.ts";
import type { ModelContent } from "../format.ts";
import type { EncodedValue, MetadataValue } from "../metadata.ts";
import { fingerprint } from "../metadata-json.ts";
import { Tensor } from "../tensor.ts";
import { addedEntry, packMetadata, restoreMetadata } from "./metadata.ts";
import { type CarriedEntry, type Json, lasting, type OriginLink, renameInChain } from "./origin.ts";

/**
 * A link of `tare.origin` that keeps the names and keys that content had before a format's `prepare` changed them.
 * Converting back to one of the formats that the content came from restores them. Tensor values are not kept here.
 */

/** Used in place of a format's id in this link. No format has this name. */
const EARLIER = "earlier-form";

export interface Preparation {
  readonly before: ModelContent;
  readonly after: ModelContent;
  /** The old name of each tensor to its new name. */
  readonly names: ReadonlyMap<string, string>;
  /** Tensors with the elements 0, 1, 2, … that were left out, because counting makes them again. */
  readonly counted: readonly Tensor[];
  /**
   * Keys that were made from earlier content disappear with the new form; "new" keys belong to the model from then on.
   */
  readonly added: "made of what was there" | "new";
  /** A sentence for the user when the model goes back, if the earlier form lacks something that it has now. */
  readonly note?: string | undefined;
}

/** The link to put in front of the chain. */
export function earlierForm({ before, after, names, counted, added, note }: Preparation): OriginLink {
  const same = (key: string, value: MetadataValue): boolean => {
    const now = after.metadata.get(key);
    return now !== undefined && fingerprint(now) === fingerprint(value);
  };
  const packed = packMetadata(before.metadata, ({ key, value }) => (same(key, value) ? "native" : "none"));
  const kept = packed.entries ?? before.metadata.entries.map(({ key }): CarriedEntry => [key]);
  const fresh = after.metadata.entries.filter(({ key }) => before.metadata.get(key) === undefined);
  const facts = {
    formats: [...new Set(before.chain.map(({ format }) => format))],
    order: before.tensors.map(({ name }) => [name, names.get(name) ?? name]),
    entries: [...kept, ...(added === "new" ? [] : fresh.map(({ key, value }) => addedEntry(key, value)))],
    counted: counted.map(({ name, dtype, shape }) => [name, dtype, shape]),
    ...(note === undefined ? {} : { note }),
  };
  return { format: EARLIER, facts };
}

/** The content in its earlier form, if that form was in the format being written; otherwise unchanged. */
export function restoreEarlier(
  content: ModelContent,
  format: string | undefined,
  decode: (encoded: EncodedValue) => MetadataValue | undefined,
): ModelContent & { readonly unreadable: readonly string[] } {
  const at = content.chain.findIndex((link) => link.format === EARLIER);
  const facts = content.chain[at]?.facts;
  const formats = facts?.["formats"];
  const entries = facts?.["entries"];
  if (format === undefined || !Array.isArray(formats) || !formats.includes(format) || !isEntries(entries)) {
    return { ...content, unreadable: [] };
  }
  const tensors = restoreNames(content.tensors, facts ?? {});
  // The file was changed since, or the facts were never true: tensors with equal names cannot be told apart.
  if (new Set(tensors.map(({ name }) => name)).size < tensors.length) return { ...content, unreadable: [] };
  const { metadata, unreadable } = restoreMetadata(content.metadata, { chain: [], entries }, decode);
  // The content is again as it was before the formats that it went through since, but for what they added to it.
  const chain = [
    ...renameInChain(lasting(content.chain.slice(0, at)), earlierNames(facts)),
    ...content.chain.slice(at + 1),
  ];
  const note = facts?.["note"];
  const notes = [...(content.notes ?? []), ...(typeof note === "string" ? [printable(note)] : [])];
  return { ...content, metadata, chain, tensors, notes, unreadable };
}

function isEntries(value: Json | undefined): value is readonly CarriedEntry[] {
  const isEntry = (entry: Json): boolean => Array.isArray(entry) && typeof entry[0] === "string" && entry.length <= 4;
  return Array.isArray(value) && (value as readonly Json[]).every(isEntry);
}

/** Gives the tensors their earlier names and order; tensors that are not listed stay at the end. */
function restoreNames(tensors: readonly Tensor[], { order, counted }: OriginLink["facts"]): readonly Tensor[] {
  const left = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  for (const row of Array.isArray(counted) ? (counted as readonly Json[]) : []) {
    const tensor = countedTensor(row);
    if (tensor !== undefined && !left.has(tensor.name)) left.set(tensor.name, tensor);
  }
  const restored: Tensor[] = [];
  for (const [was, now] of namePairs(order)) {
    const tensor = left.get(now);
    if (tensor === undefined) continue;
    left.delete(now);
    restored.push(now === was ? tensor : tensor.with({ name: was }));
  }
  return [...restored, ...left.values()];
}

/** The name of each tensor to the one it had. */
function earlierNames(facts: OriginLink["facts"] | undefined): ReadonlyMap<string, string> {
  return new Map(namePairs(facts?.["order"]).map(([was, now]) => [now, was]));
}

function namePairs(order: Json | undefined): readonly (readonly [was: string, now: string])[] {
  return (Array.isArray(order) ? (order as readonly Json[]) : []).flatMap((row) => {
    const [was, now] = Array.isArray(row) ? (row as readonly Json[]) : [];
    return typeof was === "string" && typeof now === "string" ? [[was, now] as const] : [];
  });
}

/** Most elements of a tensor that is made again: more than any position table has. */
const MAX_COUNTED = 1 << 20;

/** `[name, dtype, shape]` of a tensor whose elements are 0, 1, 2, … */
function countedTensor(row: Json): Tensor | undefined {
  const [name, dtype, shape] = Array.isArray(row) ? (row as readonly Json[]) : [];
  if (typeof name !== "string" || (dtype !== "I32" && dtype !== "I64") || !isShape(shape)) return undefined;
  const count = countAtMost(MAX_COUNTED, shape);
  if (count === undefined) return undefined;
  const byteLength = count * (dtype === "I32" ? 4 : 8);
  const source = (): ReturnType<typeof memorySource> => memorySource(countBytes(count, dtype), name);
  return new Tensor({ name, dtype, shape, byteLength, offset: 0 }, { source });
}

/**
 * The number of elements; undefined as soon as a partial product exceeds `most`, because an overflowing product may end
 * as NaN.
 */
function countAtMost(most: number, shape: readonly number[]): number | undefined {
  let count = 1;
  for (const dimension of shape) {
    count *= dimension;
    if (count > most) return undefined;
  }
  return count;
}

function countBytes(count: number, dtype: "I32" | "I64"): Bytes {
  if (count === 0) return EMPTY_BYTES;
  const width = dtype === "I32" ? 4 : 8;
  const view = new DataView(new ArrayBuffer(count * width));
  for (let i = 0; i < count; i++) view.setUint32(i * width, i, true);
  return new Uint8Array(view.buffer);
}

function isShape(value: Json | undefined): value is readonly number[] {
  return Array.isArray(value) && value.every((item) => Number.isSafeInteger(item) && (item as number) >= 0);
}
