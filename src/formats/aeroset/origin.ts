import type { Bytes } from "../../base/bytes.ts";
import { alignUp } from "../../base/integers.ts";
import { decodeHex, encodeHex } from "../../base/text.ts";
import type { Json, OriginFacts } from "../../model/origin/origin.ts";
import { UUID_BYTES } from "../aero/layout.ts";
import { ALIGNMENTS, describeAero } from "../aero/origin.ts";
import type { SetModel } from "./model.ts";
import type { SetCache } from "./set-file.ts";

/** What a set was like before, as far as its JSON and its index show. */
export interface SetFacts {
  readonly uuid: Bytes | undefined;
  readonly align: number | undefined;
  /** Tensors in each shard. */
  readonly shards: readonly number[] | undefined;
  /** Shards in each part. */
  readonly parts: readonly number[] | undefined;
  /** The JSON's hints for caches. */
  readonly cache: SetCache | undefined;
}

/**
 * What `planAeroset` needs to write this set again: uuid, `shards` (tensors per shard), `parts` (shards per part),
 * `align`, `cache`, and `quants` of packed tensors whose meaning is unknown here. Opens no part. Does not keep the
 * address: the written set may differ from the one that is published there.
 */
export function describeAeroset(set: SetModel): OriginFacts {
  const { index, file } = set.content;
  const facts: { [key: string]: Json } = { uuid: encodeHex(index.content.control.header.uuid) };
  const shards = countShards(set);
  if (shards !== undefined) {
    facts["shards"] = shards;
    facts["parts"] = file.parts.map((part) => part.shards.length);
  }
  const align = findAlignment(set);
  if (align !== undefined && align !== ALIGNMENTS[0]) facts["align"] = align;
  const { enabled, recommended } = file.cache ?? {};
  if (file.cache !== undefined) {
    facts["cache"] = {
      ...(enabled === undefined ? {} : { enabled }),
      ...(recommended === undefined ? {} : { recommended }),
    };
  }
  const { quants } = describeAero(index);
  if (quants !== undefined) facts["quants"] = quants;
  return facts;
}

/** Facts that every set has, or that options of a write give. */
const USUAL: readonly string[] = ["uuid", "shards", "parts", "align"];

/** True if `planAeroset` gives these facts by itself, or for options. */
export function isUsualAeroset(facts: OriginFacts): boolean {
  return Object.keys(facts).every((name) => USUAL.includes(name));
}

/** Facts come from a file: ignores everything that is not as `describeAeroset` writes it. */
export function parseSetFacts(facts: OriginFacts, tensorCount: number): SetFacts {
  const { uuid, align, shards, parts, cache } = facts;
  const bytes = typeof uuid === "string" ? decodeHex(uuid) : undefined;
  const tensors = isCounts(shards) && sum(shards) === tensorCount ? shards : undefined;
  const grouped = tensors !== undefined && isCounts(parts) && sum(parts) === tensors.length ? parts : undefined;
  return {
    uuid: bytes?.byteLength === UUID_BYTES ? bytes : undefined,
    align: (ALIGNMENTS as readonly unknown[]).includes(align) ? (align as number) : undefined,
    shards: grouped === undefined ? undefined : tensors,
    parts: grouped,
    cache: parseCache(cache),
  };
}

function parseCache(fact: Json | undefined): SetCache | undefined {
  if (typeof fact !== "object" || fact === null || Array.isArray(fact)) return undefined;
  const { enabled, recommended } = fact as { readonly [key: string]: Json };
  return {
    ...(typeof enabled === "boolean" ? { enabled } : {}),
    ...(typeof recommended === "boolean" ? { recommended } : {}),
  };
}

/** Tensors in each shard, if shards are numbered from 0 through the parts and tensors come in their order. */
function countShards({ content }: SetModel): number[] | undefined {
  const numbers = content.file.parts.flatMap((part) => part.shards);
  if (numbers.some((id, i) => id !== i)) return undefined;
  const counts: number[] = [];
  for (const { shardId } of content.entries) {
    if (shardId === counts.length) counts.push(0);
    else if (shardId !== counts.length - 1) return undefined;
    counts[shardId] = (counts[shardId] ?? 0) + 1;
  }
  return counts.length === numbers.length ? counts : undefined;
}

/** The alignment that explains where every tensor begins in its shard; undefined if none does. */
function findAlignment({ content }: SetModel): number | undefined {
  return ALIGNMENTS.find((align) => {
    let current = -1;
    let end = 0;
    return content.entries.every(({ shardId, dataOff, dataLen }) => {
      if (shardId !== current) end = 0;
      current = shardId;
      if (dataLen === 0) return true; // an empty tensor may be anywhere in its shard, so it shows nothing
      const fits = dataOff === alignUp(end, align);
      end = dataOff + dataLen;
      return fits;
    });
  });
}

function isCounts(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.every((count) => Number.isSafeInteger(count) && count > 0);
}

function sum(counts: readonly number[]): number {
  return counts.reduce((total, count) => total + count, 0);
}
