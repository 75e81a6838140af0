import { EMPTY_BYTES } from "../../base/bytes.ts";
import { isTareError } from "../../base/errors.ts";
import { encodeUtf8 } from "../../base/text.ts";
import { memorySource } from "../../bytes/memory.ts";
import type { Container } from "../../model/archive.ts";
import type { Loss } from "../../model/format.ts";
import type { MetadataEntry } from "../../model/metadata.ts";
import {
  encodeOrigin,
  type Json,
  ORIGIN_KEY,
  type Origin,
  type OriginFacts,
  type OriginLink,
  parseOrigin,
  splitChain,
} from "../../model/origin.ts";
import { equalShapes } from "../../model/shape.ts";
import type { Tensor, TensorReader } from "../../model/tensor.ts";
import {
  compareStandard,
  type Header,
  type HeaderTensor,
  MAX_CARRIED_TEXT,
  type MetadataForm,
  parseHeaderText,
  renderHeader,
} from "./header.ts";
import { LENGTH_BYTES } from "./index.ts";
import { safetensorsLimits } from "./limits.ts";
import { SafetensorsModel } from "./model.ts";
import { checkLayout } from "./tensors.ts";

/** A carried header has no file; its tensors are only compared. */
const NO_BYTES: TensorReader = { source: () => memorySource(EMPTY_BYTES) };

/**
 * What `plan` needs to write this very file again: nothing for the reference writer's rendering, else the order of
 * the tensors, the empty form of `__metadata__`, or the whole header. A set needs nothing: its index carries it.
 */
export function describeSafetensors(container: Container): OriginFacts {
  if (!(container instanceof SafetensorsModel)) return {};
  const [file] = container.files;
  if (file === undefined || container.parts.length !== 1) return {};
  const { header } = file;
  const tensors = header.tensors as readonly (Tensor & HeaderTensor)[];
  const facts: Record<string, Json> = {};
  const order = orderFact(tensors);
  if (order !== undefined) facts["order"] = order;
  const form = metadataForm(header);
  if (form === "null" || form === "empty") facts["metadata"] = form;
  const rendersAlike = isCanonical(header.metadata) && renderHeader(form, tensors) === header.text;
  if (rendersAlike) return facts;
  return header.text.length <= MAX_CARRIED_TEXT ? { header: header.text } : facts;
}

/**
 * Facts of our own in a chain, and what to keep for others. A set that carries the facts of the file it was cut
 * from gives two links in a row: the older one is the file.
 */
export function takeOwnFacts(chain: readonly OriginLink[]): {
  readonly facts: OriginFacts;
  readonly keep: readonly OriginLink[];
} {
  const { own, keep } = splitChain(chain, "safetensors");
  let facts = own ?? {};
  let start = 0;
  for (; keep[start]?.format === "safetensors"; start++) facts = keep[start]?.facts ?? facts;
  return { facts, keep: keep.slice(start) };
}

/** The tensors in the order that the facts ask for: the reference writer's where they ask for none that fits. */
export function orderTensors<T extends HeaderTensor>(tensors: readonly T[], facts: OriginFacts): readonly T[] {
  const sorted = [...tensors].sort(compareStandard);
  const order: unknown = facts["order"];
  if (!Array.isArray(order) || order.length !== sorted.length || new Set(order).size !== order.length) return sorted;
  const ordered: T[] = [];
  for (const place of order as readonly unknown[]) {
    const tensor = typeof place === "number" ? sorted[place] : undefined;
    if (tensor === undefined) return sorted;
    ordered.push(tensor);
  }
  return ordered;
}

/** The carried header, where it still says exactly what is to be written. */
export function carriedHeader(
  facts: OriginFacts,
  tensors: readonly HeaderTensor[],
  metadata: readonly MetadataEntry[],
): Header | undefined {
  const text = facts["header"];
  if (typeof text !== "string") return undefined;
  const dataStart = LENGTH_BYTES + encodeUtf8(text).byteLength;
  const dataBytes = tensors.reduce((sum, tensor) => sum + tensor.byteLength, 0);
  try {
    const context = { source: ORIGIN_KEY, limits: safetensorsLimits({}), reader: NO_BYTES };
    const header = parseHeaderText(text, dataStart, context);
    checkLayout(header, dataStart + dataBytes);
    return sameTensors(header, tensors) && sameMetadata(header.metadata, metadata) ? header : undefined;
  } catch (error) {
    if (!isTareError(error)) throw error;
    return undefined; // damaged, or of another file: the standard rendering is always right
  }
}

/** Fields of tensor entries that only the carried header has, where the header itself cannot be used again. */
export function furtherLosses(facts: OriginFacts, header: Header | undefined): Loss[] {
  const text = facts["header"];
  if (typeof text !== "string" || header !== undefined) return [];
  try {
    const context = { source: ORIGIN_KEY, limits: safetensorsLimits({}), reader: NO_BYTES };
    const { further } = parseHeaderText(text, LENGTH_BYTES + encodeUtf8(text).byteLength, context);
    if (further === undefined) return [];
    return [{ name: further.name, reason: "fields of its entry that the format does not name" }];
  } catch (error) {
    if (!isTareError(error)) throw error;
    return []; // nothing that was ever a header
  }
}

/** `order[k]` is the place in the standard order of the header's tensor k; undefined where they are in that order. */
function orderFact(tensors: readonly HeaderTensor[]): readonly number[] | undefined {
  const places = tensors.map((tensor, index) => ({ tensor, index }));
  places.sort((a, b) => compareStandard(a.tensor, b.tensor));
  if (places.every(({ index }, place) => index === place)) return undefined;
  const order = new Array<number>(tensors.length);
  for (const [place, { index }] of places.entries()) order[index] = place;
  return order;
}

function metadataForm(header: Header): MetadataForm {
  if (header.metadataForm !== "object") return header.metadataForm;
  return header.metadata.length === 0 ? "empty" : header.metadata;
}

/** True where an origin among the metadata is where and how our writer puts it. */
function isCanonical(metadata: readonly MetadataEntry[]): boolean {
  const at = metadata.findIndex(({ key }) => key === ORIGIN_KEY);
  const text = originText(metadata[at]);
  if (at < 0 || text === undefined) return true;
  const value = metadata[at]?.value;
  return at === metadata.length - 1 && text !== "" && value?.type === "string" && value.value === text;
}

/** An origin in our own rendering, "" where it says nothing; undefined where the entry is none. */
function originText(entry: MetadataEntry | undefined): string | undefined {
  if (entry?.key !== ORIGIN_KEY || entry.value.type !== "string") return undefined;
  const origin = parseOrigin(entry.value.value);
  return origin === undefined ? undefined : renderOrigin(origin);
}

/** The text to store for an origin, "" where there is nothing to keep. */
export function renderOrigin({ chain, entries, tensors, order }: Origin): string {
  if (chain.length === 0 && entries === undefined && tensors === undefined) return "";
  return encodeOrigin({
    chain,
    ...(entries === undefined ? {} : { entries }),
    ...(tensors === undefined ? {} : { tensors }),
    ...(order === undefined ? {} : { order }),
  });
}

function sameTensors(header: Header, tensors: readonly HeaderTensor[]): boolean {
  if (header.tensors.length !== tensors.length) return false;
  const byName = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  return header.tensors.every((carried) => {
    const tensor = byName.get(carried.name);
    return tensor !== undefined && tensor.dtype === carried.dtype && equalShapes(tensor.shape, carried.shape);
  });
}

function sameMetadata(a: readonly MetadataEntry[], b: readonly MetadataEntry[]): boolean {
  return comparableMetadata(a) === comparableMetadata(b);
}

/** Origins count by what they say, wherever they stand; every other entry by text and place. */
function comparableMetadata(entries: readonly MetadataEntry[]): string {
  const origin = entries.map(originText).find((text) => text !== undefined) ?? "";
  const others = entries.filter((entry) => originText(entry) === undefined);
  return JSON.stringify([origin, others.map(({ key, value }) => [key, value.type === "string" ? value.value : null])]);
}
