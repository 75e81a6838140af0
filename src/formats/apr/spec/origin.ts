import { isTareError } from "../../../base/errors.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import type { Loss } from "../../../model/finding.ts";
import { renderMetadata } from "../../../model/metadata-json.ts";
import {
  type Json,
  MAX_CARRIED_TEXT,
  type OriginFacts,
  type OriginLink,
  splitChain,
} from "../../../model/origin/origin.ts";
import { APR_LIMITS } from "../limits.ts";
import { decodeMetadata, shadowedLosses } from "../metadata.ts";
import type { AprModel } from "../model.ts";
import { type SpecDetails, specDetails } from "../model.ts";
import { FILE_FLAGS, TENSOR_FLAGS, VERSION } from "./layout.ts";
import { alignmentOf } from "./lint.ts";
import type { ManifestDetails } from "./shards.ts";
import { compareNames, type StoredTensor } from "./tensors.ts";

/** Facts as the planner uses them; malformed ones are left out. */
export interface SpecFacts {
  readonly align: 32 | undefined;
  readonly compress: "lz4" | undefined;
  /** Header bits that no writer can derive: unknown ones, and STREAMING. */
  readonly flags: number;
  /** The values of fields that are zero in this version's header and index header. */
  readonly versionMinor: number;
  readonly reserved: number;
  /** Bits of tensors that this version does not name, by tensor. */
  readonly tensorFlags: ReadonlyMap<string, number>;
  /** For the i-th entry of the index, its place in the sorted order. */
  readonly order: readonly number[] | undefined;
  /** The metadata text of the file, if tare would write it differently. */
  readonly metadata: string | undefined;
}

/** What `planSpec` needs to write this very file again; for a set, what its shards have in common. */
export function describeSpec(model: AprModel): OriginFacts {
  if (model.layout !== "manifest") return describeFile(specDetails(model), "file");
  const shards = specShards((model.details as ManifestDetails).shards);
  const [first] = shards;
  if (first === undefined) return {};
  const unknown = shards.flatMap(({ entries }) => unknownFlags(entries));
  return { ...describeFile(first, "shard"), ...(unknown.length === 0 ? {} : { tensorFlags: unknown }) };
}

function specShards(shards: readonly AprModel[]): readonly SpecDetails[] {
  return shards.filter(({ layout }) => layout === "spec").map(specDetails);
}

/** What a shard's header says and a merged file cannot: the first shard speaks for all. */
export function shardLosses(shards: readonly AprModel[]): Loss[] {
  const all = specShards(shards);
  return all.flatMap((shard) => {
    const own = headerFacts(shard);
    const common = headerFacts(all[0] ?? shard);
    const { label } = shard.source;
    const differs = Object.keys(own).filter((name) => own[name] !== common[name]);
    return [
      ...differs.map((name) => ({ name: `${name} of ${label}`, reason: "the first shard says something else" })),
      ...shadowedLosses(shard.metadata.shadowed, ` of ${label}`),
    ];
  });
}

/** By the specification's names. */
function headerFacts({ header, index }: SpecDetails): Readonly<Record<string, number>> {
  return { version_minor: header.versionMinor, reserved: index.reserved, flags: keptFlags(header.flags) };
}

function unknownFlags(entries: SpecDetails["entries"]): (readonly [string, number])[] {
  return entries
    .map(({ name, flags }) => [name, Number(TENSOR_FLAGS.unknown(flags))] as const)
    .filter(([, flags]) => flags !== 0);
}

function describeFile(details: SpecDetails, role: "file" | "shard"): OriginFacts {
  const { header, entries, metadata } = details;
  const facts: { [key: string]: Json } = {};
  if (alignmentOf(header.flags) === 32) facts["align"] = 32;
  if (entries.some(({ storage }) => storage === "lz4")) facts["compress"] = "lz4";
  const kept = keptFlags(header.flags);
  if (kept !== 0) facts["flags"] = kept;
  if (header.versionMinor !== VERSION.minor) facts["versionMinor"] = header.versionMinor;
  if (details.index.reserved !== 0) facts["reserved"] = details.index.reserved;
  if (role === "shard") return facts;
  const unknown = unknownFlags(entries);
  if (unknown.length > 0) facts["tensorFlags"] = unknown;
  const order = orderFact(entries.map(({ name }) => name));
  if (order !== undefined) facts["order"] = order;
  const text = metadata.text + metadata.padding;
  if (renderMetadata(metadata.entries) !== text && text.length <= MAX_CARRIED_TEXT) facts["metadata"] = text;
  return facts;
}

/** The bits that say nothing about tensors, alignment, shards or signatures. */
function keptFlags(flags: number): number {
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

/** True if options of a write give these facts: alignment and compression. */
export function isUsualApr(facts: OriginFacts): boolean {
  return Object.keys(facts).every((name) => name === "align" || name === "compress");
}

/** What is lost in a layout that has no place for the facts of the specification's layout. */
export function factLosses(chain: readonly OriginLink[]): Loss[] {
  const { flags, versionMinor, reserved, tensorFlags, metadata } = parseFacts(
    splitChain(chain, "apr", "file").own ?? {},
  );
  const reason = "the layout has no place for it";
  const fields = [
    ["flags", Number(FILE_FLAGS.unknown(flags))],
    ["version_minor", versionMinor],
    ["reserved", reserved],
    ...tensorFlags,
  ] as const;
  const lost = fields.filter(([, value]) => value !== 0).map(([name]) => ({ name, reason }));
  return [...lost, ...shadowedIn(metadata)];
}

/** Values that only the metadata text holds: those of keys that appear twice. */
export function shadowedIn(text: string | undefined): Loss[] {
  if (text === undefined) return [];
  try {
    const place = { source: "metadata", offset: 0, maxValues: APR_LIMITS.metadataValues.default };
    return shadowedLosses(decodeMetadata(encodeUtf8(text), place).shadowed);
  } catch (error) {
    if (isTareError(error)) return []; // a damaged origin
    throw error;
  }
}

/** Reads facts that may have been edited. */
export function parseFacts(facts: OriginFacts): SpecFacts {
  const { align, compress, flags, versionMinor, reserved, order, metadata } = facts;
  return {
    align: align === 32 ? 32 : undefined,
    compress: compress === "lz4" ? "lz4" : undefined,
    flags: isUint32(flags) ? keptFlags(flags) : 0,
    versionMinor: isUint32(versionMinor) && versionMinor <= 0xffff ? versionMinor : VERSION.minor,
    reserved: isUint32(reserved) ? reserved : 0,
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
