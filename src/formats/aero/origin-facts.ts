import { isTareError } from "../../base/errors.ts";
import { encodeHex } from "../../base/hex.ts";
import { alignUp } from "../../base/integers.ts";
import type { Json, OriginFacts } from "../../model/origin.ts";
import type { Tensor } from "../../model/tensor.ts";
import type { MsgpackValue } from "../../primitives/encoding/msgpack-value.ts";
import type { AeroModel } from "./aero-model.ts";
import { decodePhsh } from "./chunks/phsh.ts";
import { FOURCC } from "./layout.ts";
import type { Shard } from "./shards.ts";

/** Alignments to try, the writer's own default first: where several fit, it needs no telling. */
const ALIGNMENTS = [64, 1, 2, 4, 8, 16, 32, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536] as const;
/** Up to this a single shard is what the writer makes by itself. */
const DEFAULT_SHARD_BYTES = 2 ** 31;

/**
 * What `planAero` needs to write this file again: uuid, `shards` (tensors per shard), `align`, `pageBytes`,
 * `tensorHashes`, `controlHash`, and `quants` of packed tensors whose meaning is unknown here.
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
  const quants = index.packed
    .filter(({ quantId, quantParams }) => quantId !== undefined || quantParams !== undefined)
    .map(({ name, quantId, quantParams }) => [name, quantId ?? null, toJson(quantParams) ?? null]);
  if (quants.length > 0) facts["quants"] = quants;
  return facts;
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

/** Undefined for what JSON cannot say. */
function toJson(value: MsgpackValue | undefined): Json | undefined {
  switch (value?.type) {
    case "nil":
      return null;
    case "bool":
    case "string":
    case "float":
      return value.value;
    case "integer":
      return typeof value.value === "bigint" ? undefined : value.value;
    case "array": {
      const items = value.items.map(toJson);
      return items.every((item): item is Json => item !== undefined) ? items : undefined;
    }
    case "map": {
      const entries = value.entries.map(([key, item]) => [key, toJson(item)] as const);
      const isPlain = entries.every((entry): entry is readonly [string, Json] => entry[1] !== undefined);
      return isPlain ? Object.fromEntries(entries) : undefined;
    }
    default:
      return undefined;
  }
}
