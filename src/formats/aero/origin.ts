import { isTareError } from "../../base/errors.ts";
import { alignUp } from "../../base/integers.ts";
import { encodeBase64, encodeHex } from "../../base/text.ts";
import type { Loss } from "../../model/format.ts";
import type { Json, OriginFacts } from "../../model/origin.ts";
import type { Tensor } from "../../model/tensor.ts";
import { encodeMsgpack, type MsgpackValue } from "../../primitives/encoding/msgpack-value.ts";
import { decodePhsh } from "./chunks/digests.ts";
import { MAX_FURTHER_BYTES } from "./chunks/further-keys.ts";
import { FOURCC } from "./layout.ts";
import type { AeroModel } from "./model.ts";
import type { PackedTensor } from "./tensors.ts";
import type { Shard } from "./weights/shards.ts";
import { isWellFormed } from "./write/tensors.ts";

/** Alignments to try, the writer's own default first: where several fit, it needs no telling. */
const ALIGNMENTS = [64, 1, 2, 4, 8, 16, 32, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536] as const;
/** Up to this a single shard is what the writer makes by itself. */
const DEFAULT_SHARD_BYTES = 2 ** 31;

/**
 * What `planAero` needs to write this file again: uuid, `shards` (tensors per shard), `align`, `pageBytes`,
 * `tensorHashes`, `controlHash`, `quants` of packed tensors whose meaning is unknown here, words of the `manifest` that differ from the metadata's, and `further`
 * keys.
 */
export function describeAero(model: AeroModel): OriginFacts {
  const { control, index } = model.content;
  const facts: { [key: string]: Json } = { uuid: encodeHex(control.header.uuid) };
  const counts = shardCounts(index.shards);
  if (counts !== undefined && !isDerivable(model.tensors, counts)) facts["shards"] = counts;
  const align = alignmentOf(model.tensors, index.shards);
  if (align !== undefined && align !== ALIGNMENTS[0]) facts["align"] = align;
  const pageBytes = pageBytesOf(index.shards);
  if (pageBytes !== undefined) facts["pageBytes"] = pageBytes;
  if (index.hashes.length > 0) facts["tensorHashes"] = true;
  if (control.toc.first(FOURCC.control) !== undefined) facts["controlHash"] = true;
  const quants = packedFacts(index.packed).rows;
  if (quants.length > 0) facts["quants"] = quants;
  const names = manifestNames(model);
  if (names !== undefined) facts["manifest"] = names;
  const further = model.content.further.facts();
  if (further !== undefined) facts["further"] = further;
  return facts;
}

const MANIFEST_NAMES = [
  ["name", "model_name"],
  ["architecture", "architecture"],
] as const;

/** `[what MMSG says, what MJSN says]` where both say it and differ: a manifest made anew would repeat the JSON. */
function manifestNames({ content }: AeroModel): { readonly [field: string]: Json } | undefined {
  const { json, manifest } = content;
  const names: { [field: string]: Json } = {};
  for (const [field, key] of MANIFEST_NAMES) {
    const text = manifest[field];
    const value = json?.entries.find((entry) => entry.key === key)?.value;
    if (text === undefined || text === "" || value?.type !== "string" || value.value === text) continue;
    names[field] = [text, value.value];
  }
  return Object.keys(names).length === 0 ? undefined : names;
}

/** The manifest's own words, where the metadata still says what it said beside them. */
export function restoreNames(
  names: { readonly name: string; readonly architecture: string },
  fact: Json | undefined,
): { readonly name: string; readonly architecture: string } {
  if (typeof fact !== "object" || fact === null || Array.isArray(fact)) return names;
  const rows = fact as { readonly [field: string]: Json };
  const restore = (field: "name" | "architecture"): string => {
    const row = rows[field];
    const [text, beside] = Array.isArray(row) ? (row as readonly Json[]) : [];
    return typeof text === "string" && beside === names[field] && isWellFormed(text) ? text : names[field];
  };
  return { name: restore("name"), architecture: restore("architecture") };
}

/**
 * Rows of `quants`: `[name, quant_id, quant_params]`, and where JSON cannot say the parameters exactly `[name, quant_id,
 * null, their MessagePack in base64]`. Parameters beyond what travels in `tare.origin` are losses.
 */
export function packedFacts(packed: readonly PackedTensor[]): {
  readonly rows: readonly Json[];
  readonly losses: readonly Loss[];
} {
  const rows: Json[] = [];
  const losses: Loss[] = [];
  let left = MAX_FURTHER_BYTES;
  for (const { name, quantId, quantParams } of packed) {
    if (quantId === undefined && quantParams === undefined) continue;
    const json = quantParams?.type === "map" ? toJson(quantParams) : undefined;
    if (quantParams === undefined || json !== undefined) {
      rows.push([name, quantId ?? null, json ?? null]);
      continue;
    }
    const encoded = encodeMsgpack(quantParams);
    left -= encoded.byteLength;
    if (left < 0) losses.push({ name, reason: "its quant_params are too long to be carried" });
    else rows.push([name, quantId ?? null, null, encodeBase64(encoded)]);
  }
  return { rows, losses };
}

/** Tensors in each shard, where they come in the order of the shards; undefined where they do not. */
function shardCounts(shards: readonly Shard[]): number[] | undefined {
  const counts: number[] = [];
  for (const { id } of shards) {
    if (id === counts.length) counts.push(0);
    else if (id !== counts.length - 1) return undefined;
    counts[id] = (counts[id] ?? 0) + 1;
  }
  return counts;
}

function isDerivable(tensors: readonly Tensor[], counts: readonly number[]): boolean {
  const total = tensors.reduce((sum, tensor) => sum + alignUp(tensor.byteLength, ALIGNMENTS[0]), 0);
  return counts.length === 0 || (counts.length === 1 && total <= DEFAULT_SHARD_BYTES);
}

/** The alignment that explains where every tensor begins; undefined where none does. */
function alignmentOf(tensors: readonly Tensor[], shards: readonly Shard[]): number | undefined {
  return ALIGNMENTS.find((align) => {
    let current: Shard | undefined;
    let end = 0;
    return tensors.every((tensor, i) => {
      const shard = shards[i];
      if (shard?.chunk === undefined || shard.problem !== undefined) return false;
      if (shard !== current) end = shard.chunk.offset;
      current = shard;
      // An empty tensor may stand anywhere in its shard: it tells nothing.
      if (tensor.storedByteLength === 0) return true;
      const fits = tensor.offset === alignUp(end, align);
      end = tensor.offset + tensor.storedByteLength;
      return fits;
    });
  });
}

/** From page hashes that are in memory; where they are not, the power of two that gives as many pages. */
function pageBytesOf(shards: readonly Shard[]): number | undefined {
  const paged = shards.find((shard) => shard.pages !== undefined && shard.byteLength > 0);
  if (paged?.pages === undefined) return undefined;
  const stored = paged.preloadedPages();
  if (stored !== undefined) {
    try {
      return decodePhsh(stored, { label: paged.name, offset: 0 }, paged.byteLength).pageBytes;
    } catch (error) {
      if (!isTareError(error)) throw error;
      return undefined; // damaged: the writer then makes none
    }
  }
  // Each digest takes 34 bytes, the rest of the chunk some fifty (AIP-0002).
  const pages = Math.max(1, Math.floor((paged.pages.byteLength - 40) / 34));
  for (let pageBytes = 1; pageBytes <= 2 ** 40; pageBytes *= 2) {
    if (Math.ceil(paged.byteLength / pageBytes) <= pages) return pageBytes;
  }
  return undefined;
}

/** Deeper parameters are carried as bytes: readers bound how deep `tare.origin` nests. */
const MAX_JSON_DEPTH = 16;

/** Undefined for what JSON cannot say exactly. */
function toJson(value: MsgpackValue, depth = 0): Json | undefined {
  if (depth > MAX_JSON_DEPTH) return undefined;
  switch (value.type) {
    case "nil":
      return null;
    case "bool":
    case "string":
      return value.value;
    case "float":
      // JSON has no infinity, and 1.0 would come back as an integer.
      return Number.isFinite(value.value) && !Number.isInteger(value.value) ? value.value : undefined;
    case "integer":
      return typeof value.value === "bigint" ? undefined : value.value;
    case "array": {
      const items = value.items.map((item) => toJson(item, depth + 1));
      return items.every((item): item is Json => item !== undefined) ? items : undefined;
    }
    case "map": {
      const entries = value.entries.map(([key, item]) => [key, toJson(item, depth + 1)] as const);
      const isPlain = entries.every((entry): entry is readonly [string, Json] => entry[1] !== undefined);
      return isPlain ? Object.fromEntries(entries) : undefined;
    }
    default:
      return undefined;
  }
}
