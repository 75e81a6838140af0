import { encodeUtf8 } from "../../../base/text.ts";
import { renderMetadata } from "../../../model/metadata-json.ts";
import { type Json, type OriginFacts, type OriginLink, splitChain } from "../../../model/origin.ts";
import type { AprModel } from "../model.ts";
import { FILE_FLAGS, TENSOR_FLAGS } from "./layout.ts";
import { alignmentOf } from "./lint.ts";
import { type SpecDetails, specDetails } from "./read.ts";
import type { ManifestDetails } from "./shards.ts";
import { compareNames, type StoredTensor } from "./tensors.ts";

/** Metadata text beyond this is not carried: the copy would be longer than most models' metadata altogether. */
const MAX_CARRIED_TEXT = 16 << 20;

/** Facts as the planner uses them; whatever is not what it should be is left out. */
export interface SpecFacts {
  readonly align: 32 | undefined;
  readonly compress: "lz4" | undefined;
  /** Header bits that no writer can derive: unknown ones, and STREAMING. */
  readonly flags: number;
  /** Bits of tensors that have no name here, by tensor. */
  readonly tensorFlags: ReadonlyMap<string, number>;
  /** Place in the sorted order of what stands i-th in the index. */
  readonly order: readonly number[] | undefined;
  /** The metadata as it was written, where it was not written as tare does. */
  readonly metadata: string | undefined;
}

/** What `planSpec` needs to write this very file again; a set keeps what its shards have in common. */
export function describeSpec(model: AprModel): OriginFacts {
  if (model.layout !== "manifest") return describeFile(specDetails(model), "file");
  const [first] = (model.details as ManifestDetails).shards;
  return first?.layout === "spec" ? describeFile(specDetails(first), "shard") : {};
}

function describeFile(details: SpecDetails, role: "file" | "shard"): OriginFacts {
  const { header, entries, metadata } = details;
  const facts: { [key: string]: Json } = {};
  if (alignmentOf(header.flags) === 32) facts["align"] = 32;
  if (entries.some(({ storage }) => storage === "lz4")) facts["compress"] = "lz4";
  const kept = keptFlags(header.flags);
  if (kept !== 0) facts["flags"] = kept;
  if (role === "shard") return facts;
  const unknown = entries
    .map(({ name, flags }) => [name, Number(TENSOR_FLAGS.unknown(flags))] as const)
    .filter(([, flags]) => flags !== 0);
  if (unknown.length > 0) facts["tensorFlags"] = unknown;
  const order = orderFact(entries.map(({ name }) => name));
  if (order !== undefined) facts["order"] = order;
  const isOwn = metadata.trailingBytes === 0 && renderMetadata(metadata.entries) === metadata.text;
  if (!isOwn && metadata.text.length <= MAX_CARRIED_TEXT) facts["metadata"] = metadata.text;
  return facts;
}

/** Bits that say nothing about the tensors, the alignment, shards or signatures. */
export function keptFlags(flags: number): number {
  const streaming = FILE_FLAGS.has(flags, "STREAMING") ? FILE_FLAGS.encode(["STREAMING"]) : 0n;
  return Number(FILE_FLAGS.unknown(flags) | streaming);
}

function orderFact(names: readonly string[]): number[] | undefined {
  const rows = names.map((name) => ({ name, nameBytes: encodeUtf8(name) }) as StoredTensor);
  const sorted = [...rows].sort(compareNames);
  if (sorted.every((row, i) => row === rows[i])) return undefined;
  const places = new Map(sorted.map((row, place) => [row, place]));
  return rows.map((row) => places.get(row) ?? 0);
}

/**
 * Facts of our own in a chain, and what to keep for others. A set that carries the facts of the file it was cut from
 * gives two links in a row: the older one is the file.
 */
export function takeOwnFacts(chain: readonly OriginLink[]): {
  readonly own: OriginFacts;
  readonly keep: readonly OriginLink[];
} {
  const split = splitChain(chain, "apr");
  let own = split.own ?? {};
  let start = 0;
  for (; split.keep[start]?.format === "apr"; start++) own = split.keep[start]?.facts ?? own;
  return { own, keep: split.keep.slice(start) };
}

/** Reads facts that somebody may have edited. */
export function parseFacts(facts: OriginFacts): SpecFacts {
  const { align, compress, flags, order, metadata } = facts;
  return {
    align: align === 32 ? 32 : undefined,
    compress: compress === "lz4" ? "lz4" : undefined,
    flags: isUint32(flags) ? keptFlags(flags) : 0,
    tensorFlags: tensorFlagsFact(facts["tensorFlags"]),
    order: Array.isArray(order) && order.every(isUint32) ? order : undefined,
    metadata: typeof metadata === "string" ? metadata : undefined,
  };
}

function tensorFlagsFact(fact: Json | undefined): ReadonlyMap<string, number> {
  const rows = Array.isArray(fact) ? (fact as readonly Json[]) : [];
  const map = new Map<string, number>();
  for (const row of rows) {
    const [name, flags] = Array.isArray(row) ? (row as readonly Json[]) : [];
    if (typeof name === "string" && isUint32(flags)) map.set(name, Number(TENSOR_FLAGS.unknown(flags)));
  }
  return map;
}

function isUint32(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= 0xffff_ffff;
}
