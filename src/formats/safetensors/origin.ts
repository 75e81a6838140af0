import { EMPTY_BYTES } from "../../base/bytes.ts";
import { isTareError } from "../../base/errors.ts";
import { encodeUtf8 } from "../../base/text.ts";
import { atOnce } from "../../base/turns.ts";
import { memorySource } from "../../bytes/memory.ts";
import type { Container } from "../../model/archive.ts";
import { equalShapes } from "../../model/dtype.ts";
import type { Loss } from "../../model/finding.ts";
import type { MetadataEntry } from "../../model/metadata.ts";
import {
  encodeOrigin,
  type Json,
  MAX_CARRIED_TEXT,
  ORIGIN_KEY,
  type Origin,
  type OriginFacts,
  parseOrigin,
} from "../../model/origin/origin.ts";
import type { Tensor, TensorReader } from "../../model/tensor.ts";
import {
  compareStandard,
  type Header,
  type HeaderTensor,
  type MetadataForm,
  parseHeaderText,
  renderHeader,
} from "./header.ts";
import { LENGTH_BYTES } from "./index.ts";
import { safetensorsLimits } from "./limits.ts";
import { checkLayout, SafetensorsModel } from "./model.ts";

/** A carried header has no file; its tensors are only compared. */
const NO_BYTES: TensorReader = { source: () => memorySource(EMPTY_BYTES) };

/**
 * What `plan` needs to write exactly this file again: nothing for the reference writer's rendering, else the order of
 * the tensors, the empty form of `__metadata__`, or the whole header. A set needs nothing, because its index carries
 * it.
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

/** The tensors in the order of the facts; in the reference writer's order if the facts have none that fits. */
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

/** The carried header, if it still describes exactly what is written. */
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
    const header = atOnce(parseHeaderText(text, dataStart, context));
    checkLayout(header, dataStart + dataBytes);
    return sameTensors(header, tensors) && sameMetadata(header.metadata, metadata) ? header : undefined;
  } catch (error) {
    if (!isTareError(error)) throw error;
    return undefined; // damaged, or of another file: the standard rendering is always right
  }
}

/** Fields of tensor entries that only the carried header has, if the header itself cannot be used again. */
export function furtherLosses(facts: OriginFacts, header: Header | undefined): Loss[] {
  const text = facts["header"];
  if (typeof text !== "string" || header !== undefined) return [];
  try {
    const context = { source: ORIGIN_KEY, limits: safetensorsLimits({}), reader: NO_BYTES };
    const { further } = atOnce(parseHeaderText(text, LENGTH_BYTES + encodeUtf8(text).byteLength, context));
    if (further === undefined) return [];
    return [{ name: further.name, reason: "fields of its entry that the format does not name" }];
  } catch (error) {
    if (!isTareError(error)) throw error;
    return []; // it was never a header
  }
}

/** `order[k]` is the place of the header's tensor k in the standard order; undefined if they are in that order. */
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

/** True if an origin in the metadata has the place and the form that our writer gives it. */
function isCanonical(metadata: readonly MetadataEntry[]): boolean {
  const at = metadata.findIndex(({ key }) => key === ORIGIN_KEY);
  const text = originText(metadata[at]);
  if (at < 0 || text === undefined) return true;
  const value = metadata[at]?.value;
  return at === metadata.length - 1 && text !== "" && value?.type === "string" && value.value === text;
}

/** An origin in our own rendering, "" if it is empty; undefined if the entry is not an origin. */
function originText(entry: MetadataEntry | undefined): string | undefined {
  if (entry?.key !== ORIGIN_KEY || entry.value.type !== "string") return undefined;
  const origin = parseOrigin(entry.value.value);
  return origin === undefined ? undefined : renderOrigin(origin);
}

/** The text to store for an origin, "" if there is nothing to keep. */
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

/** Origins are compared by content, at any place; every other entry by text and place. */
function comparableMetadata(entries: readonly MetadataEntry[]): string {
  const origin = entries.map(originText).find((text) => text !== undefined) ?? "";
  const others = entries.filter((entry) => originText(entry) === undefined);
  return JSON.stringify([origin, others.map(({ key, value }) => [key, value.type === "string" ? value.value : null])]);
}
