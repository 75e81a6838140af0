import { type Bytes, EMPTY_BYTES } from "../base/bytes.ts";
import { memorySource } from "../bytes/memory.ts";
import type { ModelContent } from "./format.ts";
import type { EncodedValue, MetadataValue } from "./metadata.ts";
import { fingerprint } from "./metadata-json.ts";
import type { CarriedEntry, Json, OriginLink } from "./origin.ts";
import { addedEntry, packMetadata, restoreMetadata } from "./origin-metadata.ts";
import { Tensor } from "./tensor.ts";

/**
 * What content was before a format's `prepare` gave it other names and keys, as a link of `tare.origin`: converting back to
 * one of the formats that it came from gives it the earlier ones again. Values of tensors are not kept here.
 */

/** Stands where other links have a format's id; no format is called so. */
const EARLIER = "earlier-form";

export interface Preparation {
  readonly before: ModelContent;
  readonly after: ModelContent;
  /** Which name each tensor has now, by the one that it had. */
  readonly names: ReadonlyMap<string, string>;
  /** Tensors 0, 1, 2, … that were left out since counting makes them again. */
  readonly counted: readonly Tensor[];
  /** Keys made of what was there go with the form that they belong to; new ones are the model's own from then on. */
  readonly added: "made of what was there" | "new";
}

/** The link to put in front of the chain. */
export function earlierForm({ before, after, names, counted, added }: Preparation): OriginLink {
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
    entries: [...kept, ...(added === "new" ? [] : fresh.map(({ key }) => addedEntry(key)))],
    counted: counted.map(({ name, dtype, shape }) => [name, dtype, shape]),
  };
  return { format: EARLIER, facts };
}

/** The content as it was, where that was in the format that is written; as it is otherwise. */
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
  // The file has been changed since, or says what never was: two tensors of one name cannot be told apart.
  if (new Set(tensors.map(({ name }) => name)).size < tensors.length) return { ...content, unreadable: [] };
  const { metadata, unreadable } = restoreMetadata(content.metadata, { chain: [], entries }, decode);
  // Without the formats that it was in since: it is what it was before them.
  const chain = content.chain.slice(at + 1);
  return { ...content, metadata, chain, tensors, unreadable };
}

function isEntries(value: Json | undefined): value is readonly CarriedEntry[] {
  const isEntry = (entry: Json): boolean => Array.isArray(entry) && typeof entry[0] === "string" && entry.length <= 4;
  return Array.isArray(value) && (value as readonly Json[]).every(isEntry);
}

/** Earlier names in the earlier order; tensors that are not among them stay at the end. */
function restoreNames(tensors: readonly Tensor[], { order, counted }: OriginLink["facts"]): readonly Tensor[] {
  const left = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  for (const row of Array.isArray(counted) ? (counted as readonly Json[]) : []) {
    const tensor = countedTensor(row);
    if (tensor !== undefined && !left.has(tensor.name)) left.set(tensor.name, tensor);
  }
  const restored: Tensor[] = [];
  for (const row of Array.isArray(order) ? (order as readonly Json[]) : []) {
    const [was, now] = Array.isArray(row) ? (row as readonly Json[]) : [];
    const tensor = typeof now === "string" ? left.get(now) : undefined;
    if (tensor === undefined || typeof was !== "string") continue;
    left.delete(tensor.name);
    restored.push(tensor.name === was ? tensor : tensor.with({ name: was }));
  }
  return [...restored, ...left.values()];
}

/** The longest that is made again: more than any position table has. */
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

/** The number of elements; undefined above `most`, on the way to it too: a product that overflows may end as no number. */
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
