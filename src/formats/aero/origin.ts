import { isTareError } from "../../base/errors.ts";
import { alignUp } from "../../base/integers.ts";
import { encodeHex, isWellFormed } from "../../base/text.ts";
import type { Json, OriginFacts } from "../../model/origin/origin.ts";
import type { Tensor } from "../../model/tensor.ts";
import { decodePhsh } from "./chunks/digests.ts";
import { chunkNames, MAX_NAME_LENGTH, NAMED_CHUNKS } from "./chunks/toc.ts";
import { type ChunkNames, FOURCC } from "./layout.ts";
import type { AeroModel } from "./model.ts";
import { packedFacts } from "./tensors.ts";
import type { Shard } from "./weights/shards.ts";

/** Alignments to try, the writer's default first: if several fit, the default needs no fact. */
export const ALIGNMENTS = [64, 1, 2, 4, 8, 16, 32, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536] as const;
/** Up to this length the writer makes a single shard by default, as the reference writer (docs/formats/aero.md#writing). */
export const DEFAULT_SHARD_BYTES = 2 ** 31;

/**
 * What `planAero` needs to write this file again: uuid, `shards` (tensors per shard), `align`, `pageBytes`,
 * `tensorHashes`, `controlHash`, `quants` of packed tensors whose meaning is unknown here, texts of the `manifest` that
 * differ from the metadata's, `names` of chunks that are not the usual ones, and `further` keys.
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
  const chunks = chunkNames(control.toc).names;
  if (Object.keys(chunks).length > 0) facts["names"] = chunks;
  const further = model.content.further.facts();
  if (further !== undefined) facts["further"] = further;
  return facts;
}

/** Facts that every file has, or that options of a write give. */
const USUAL: readonly string[] = ["uuid", "shards", "align", "pageBytes", "tensorHashes", "controlHash"];

/** True if `planAero` gives these facts by itself, or for options. */
export function isUsualAero(facts: OriginFacts): boolean {
  return Object.keys(facts).every((name) => USUAL.includes(name));
}

const MANIFEST_NAMES = [
  ["name", "model_name"],
  ["architecture", "architecture"],
] as const;

/** `[text of MMSG, text of MJSN]` if both have it and differ: a new manifest would repeat the JSON. */
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

/** The manifest's own texts, if the metadata still says what it said then. */
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

/** Ignores everything that is not in the form that `chunkNames` gives. */
export function parseChunkNames(fact: Json | undefined): ChunkNames {
  if (typeof fact !== "object" || fact === null || Array.isArray(fact)) return {};
  const given = fact as { readonly [role: string]: Json };
  return Object.fromEntries(
    NAMED_CHUNKS.flatMap(([role]) => {
      const name = Object.hasOwn(given, role) ? given[role] : undefined;
      const isName = typeof name === "string" && name.length <= MAX_NAME_LENGTH && isWellFormed(name);
      return isName ? [[role, name] as const] : [];
    }),
  );
}

/** Tensors in each shard if they come in the order of the shards; else undefined. */
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

/** The alignment that explains where every tensor begins; undefined if none does. */
export function alignmentOf(tensors: readonly Tensor[], shards: readonly Shard[]): number | undefined {
  return ALIGNMENTS.find((align) => {
    let current: Shard | undefined;
    let end = 0;
    return tensors.every((tensor, i) => {
      const shard = shards[i];
      if (shard?.chunk === undefined || shard.problem !== undefined) return false;
      if (shard !== current) end = shard.chunk.offset;
      current = shard;
      // An empty tensor may be anywhere in its shard, so it shows nothing.
      if (tensor.storedByteLength === 0) return true;
      const fits = tensor.offset === alignUp(end, align);
      end = tensor.offset + tensor.storedByteLength;
      return fits;
    });
  });
}

/** From page hashes in memory; if they are not there, the power of two that gives the same number of pages. */
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
  // Each digest takes 34 bytes; the rest of the chunk takes about fifty (AIP-0002).
  const pages = Math.max(1, Math.floor((paged.pages.byteLength - 40) / 34));
  for (let pageBytes = 1; pageBytes <= 2 ** 40; pageBytes *= 2) {
    if (Math.ceil(paged.byteLength / pageBytes) <= pages) return pageBytes;
  }
  return undefined;
}
