import { type Bytes, equalBytes } from "../../base/bytes.ts";
import { SourceError, UsageError } from "../../base/errors.ts";
import { decodeHex, encodeHex, encodeUtf8, printable } from "../../base/text.ts";
import type { Output, Sink } from "../../bytes/sink.ts";
import type { Source } from "../../bytes/source.ts";
import { equalShapes } from "../../model/dtype.ts";
import type { ModelContent, WriteContext, WriteOptions } from "../../model/format.ts";
import { retypedMetadata } from "../../model/ggml/retyping.ts";
import type { Json, OriginFacts } from "../../model/origin/origin.ts";
import type { Tensor } from "../../model/tensor.ts";
import type { TensorRow } from "../aero/chunks/tidx.ts";
import { describeAero } from "../aero/origin.ts";
import { planShards } from "../aero/write/layout.ts";
import { planMetadata } from "../aero/write/metadata.ts";
import { planTensors, type StoredTensor } from "../aero/write/tensors.ts";
import { planNames } from "./index.ts";
import type { SetModel } from "./model.ts";
import type { PartFile } from "./parts.ts";
import {
  type FileImage,
  NO_HASH,
  ownHistory,
  partMetadata,
  planIndex,
  planPart,
  resolveSetOptions,
  rowOf,
} from "./plan.ts";
import { openAeroset } from "./read.ts";
import type { SealedFile } from "./resume.ts";
import { encodeSetFile, type SetEntry, type SetFile } from "./set-file.ts";
import { readerOf, sealFile, writeIndex, writePart } from "./write.ts";

/** A replacement of one part of a set: every decision, made before the first byte. */
export interface UpdatePlan {
  readonly set: SetModel;
  readonly old: PartFile;
  readonly part: FileImage;
  readonly index: FileImage;
  /** Digests of the index's rows; writing the new part adds its own. */
  readonly hashes: readonly (Bytes | undefined)[];
  /** The rows of the index that belong to the part, in its order. */
  readonly places: readonly number[];
  /** Bytes of tensor data that will be copied. */
  readonly dataBytes: number;
  readonly notes: readonly string[];
}

export interface UpdateOptions extends Pick<WriteOptions, "align" | "uuid"> {
  /** Number or path of the part; if absent, found by its tensors. */
  readonly part?: string | undefined;
  /** Name of the set's JSON, without folder. */
  readonly name: string;
}

/** The set, and the file whose tensors replace a part's, as writers see them. */
interface UpdateContent {
  readonly set: SetModel;
  /** The whole set. */
  readonly content: ModelContent;
  readonly replacement: ModelContent;
}

/**
 * Plans a part with new content under the same tensor names and shard numbers, and the matching index. Types and shapes
 * may change. Both files get new names, so that readers of the old JSON never see a mixture. Pure, except for a random
 * uuid if none is given.
 */
export function planUpdate({ set, content, replacement }: UpdateContent, options: UpdateOptions): UpdatePlan {
  const old = findPart(set, replacement.tensors, options.part);
  const { aero } = resolveSetOptions(options);
  const { facts, chain } = ownHistory(content.chain);
  const merged = mergeTensors({ set, content, replacement }, old);
  const { stored, carried, descriptors, losses } = planTensors(merged, {
    ...facts,
    quants: mergeQuants(set, replacement),
  });
  if (losses.length > 0 || stored.length !== merged.length) throw new Error("the set's own names were refused");
  const { text, name, architecture } = planMetadata({
    metadata: retypedMetadata(content, content.tensors, merged),
    chain,
    tensors: carried,
    descriptors,
  });
  const model = { name, architecture };
  const { places, rows: ownRows, shards, shardIds } = placePart(set, old, { stored, align: aero.align });
  const rows = set.content.entries.map((entry, i): TensorRow => {
    return { ...rowOf(stored[i] as StoredTensor, entry), dataLen: entry.dataLen };
  });
  const hashes = set.content.entries.map(({ hash }) => (hash === undefined ? undefined : decodeHex(hash)));
  for (const [i, place] of places.entries()) {
    rows[place] = ownRows[i] as TensorRow;
    hashes[place] = NO_HASH;
  }
  const tag = encodeHex(aero.uuid).slice(0, TAG_DIGITS);
  const names = planNames(options.name);
  const tensors = places.map((place) => merged[place] as Tensor);
  const json = partMetadata({ model, descriptors, number: old.number });
  const partName = tagName(old.entry.path, names.part(old.number), tag);
  const indexName = tagName(set.content.file.globalIndex.path, names.index, tag);
  return {
    set,
    old,
    part: planPart({ name: partName, rows: ownRows, tensors, shards, shardIds, json, model }, aero),
    index: planIndex({ name: indexName, rows, hashes, json: encodeUtf8(text), model }, aero),
    hashes,
    places,
    dataBytes: tensors.reduce((sum, { byteLength }) => sum + byteLength, 0),
    notes: changeNotes(set, tensors),
  };
}

/** Digits of the uuid in the names of replaced files: enough that no two updates of one set collide. */
const TAG_DIGITS = 8;

/** "part-001.aero" becomes "part-001.0123abcd.aero"; replaces an earlier tag, and an address by a local name. */
function tagName(path: string, fallback: string, tag: string): string {
  const base = /^[a-z][a-z0-9+.-]*:\/\//i.test(path) ? fallback : path;
  return `${base.replace(/\.aero$/i, "").replace(/\.[0-9a-f]{8}$/, "")}.${tag}.aero`;
}

/** All tensors in the order of the index, those of the part from the other file. */
function mergeTensors({ set, content, replacement }: UpdateContent, old: PartFile): readonly Tensor[] {
  const kept = new Map(content.tensors.map((tensor) => [tensor.name, tensor]));
  const added = new Map(replacement.tensors.map((tensor) => [tensor.name, tensor]));
  return set.content.entries.map((entry) => {
    const tensor = (set.partOf(entry) === old ? added : kept).get(entry.name);
    if (tensor !== undefined) return tensor;
    throw new UsageError("usage/aeroset.part-tensors", `Cannot find tensor "${entry.name}" in the content of the set`, {
      source: set.content.source.label,
    });
  });
}

/** The `quants` rows of packed tensors, each from the file that its tensor comes from. */
function mergeQuants(set: SetModel, replacement: ModelContent): readonly Json[] {
  const names = new Set(replacement.tensors.map(({ name }) => name));
  const isOfPart = (row: Json): boolean => Array.isArray(row) && names.has(row[0] as string);
  const kept = quantsOf(describeAero(set.content.index)).filter((row) => !isOfPart(row));
  return [...kept, ...quantsOf(replacement.chain[0]?.facts).filter(isOfPart)];
}

function quantsOf(facts: OriginFacts | undefined): readonly Json[] {
  const quants = facts?.["quants"];
  return Array.isArray(quants) ? (quants as readonly Json[]) : [];
}

/** Tensors stay in their shards, under the same numbers; only lengths may change. */
function placePart(
  set: SetModel,
  old: PartFile,
  { stored, align }: { readonly stored: readonly StoredTensor[]; readonly align: number },
) {
  const { entries } = set.content;
  const byShard = new Map<number, number[]>(old.entry.shards.map((id) => [id, []]));
  for (const [i, entry] of entries.entries()) {
    if (set.partOf(entry) === old) byShard.get(entry.shardId)?.push(i);
  }
  const filled = [...byShard].filter(([, members]) => members.length > 0);
  const places = filled.flatMap(([, members]) => members);
  const lengths = places.map((place) => (stored[place] as StoredTensor).tensor.byteLength);
  const counts = filled.map(([, members]) => members.length);
  const { placements, shards } = planShards(lengths, { align, maxShardBytes: Number.MAX_SAFE_INTEGER, counts });
  const rows = places.map((place, i) => {
    const { dataOff = 0 } = placements[i] ?? {};
    return rowOf(stored[place] as StoredTensor, { dataOff, shardId: entries[place]?.shardId ?? 0 });
  });
  return { places, rows, shards, shardIds: filled.map(([id]) => id) };
}

function changeNotes(set: SetModel, tensors: readonly Tensor[]): string[] {
  const changed = tensors.filter(({ name, dtype, shape }) => {
    const before = set.tensor(name);
    return before.dtype !== dtype || !equalShapes(before.shape, shape);
  });
  if (changed.length === 0) return [];
  const [first] = changed;
  const others = changed.length === 1 ? "" : ` and ${changed.length - 1} more`;
  return [`type or shape of "${first?.name}"${others} changes`];
}

/** How many missing or surplus names a message shows. */
const MAX_NAMES = 3;

/** The part that the tensors belong to: the requested one, else the one that holds exactly their names. */
function findPart(set: SetModel, tensors: readonly Tensor[], wanted: string | undefined): PartFile {
  const names = new Set(tensors.map(({ name }) => name));
  const owned = namesByPart(set);
  if (wanted === undefined) return findByNames(set, names, owned);
  const part = set.content.partFiles.find(({ entry, number }) => wanted === String(number) || wanted === entry.path);
  if (part === undefined) {
    const message = `Cannot find part "${printable(wanted)}": the set has parts 0 to ${set.content.partFiles.length - 1}`;
    throw new UsageError("usage/aeroset.no-part", message, { source: labelOf(set) });
  }
  checkNames(set, part, { found: names, wanted: owned.get(part) ?? new Set() });
  return part;
}

function namesByPart(set: SetModel): ReadonlyMap<PartFile, ReadonlySet<string>> {
  const owned = new Map<PartFile, Set<string>>();
  for (const entry of set.content.entries) {
    const part = set.partOf(entry);
    if (part === undefined) continue;
    const names = owned.get(part) ?? new Set();
    owned.set(part, names.add(entry.name));
  }
  return owned;
}

function findByNames(
  set: SetModel,
  names: ReadonlySet<string>,
  owned: ReadonlyMap<PartFile, ReadonlySet<string>>,
): PartFile {
  for (const [part, own] of owned)
    if (own.size === names.size && [...names].every((name) => own.has(name))) return part;
  // The first name shows which part was meant, and so what is wrong.
  const [first] = names;
  for (const [part, own] of owned) {
    if (first !== undefined && own.has(first)) checkNames(set, part, { found: names, wanted: own });
  }
  const message = "Cannot tell which part to replace: no part of the set holds these tensors";
  throw new UsageError("usage/aeroset.no-part", message, { source: labelOf(set) });
}

interface Names {
  readonly found: ReadonlySet<string>;
  readonly wanted: ReadonlySet<string>;
}

function checkNames(set: SetModel, part: PartFile, { found, wanted }: Names): void {
  const missing = [...wanted].filter((name) => !found.has(name));
  const added = [...found].filter((name) => !wanted.has(name));
  if (missing.length + added.length === 0) return;
  const faults = [
    ...(missing.length === 0 ? [] : [`without ${listNames(missing)}`]),
    ...(added.length === 0 ? [] : [`with ${listNames(added)}, which the part does not have`]),
  ];
  const message = `Cannot replace "${printable(part.label)}": must be given exactly its tensors, found a file ${faults.join(" and ")}`;
  const hint = "Take the tensors of one part: tare convert of the set, with the option include";
  throw new UsageError("usage/aeroset.part-tensors", message, { source: labelOf(set) }, { hint });
}

function listNames(names: readonly string[]): string {
  const shown = names.slice(0, MAX_NAMES).map((name) => `"${printable(name)}"`);
  const more = names.length > MAX_NAMES ? ` and ${names.length - MAX_NAMES} more` : "";
  return `${shown.join(", ")}${more}`;
}

function labelOf(set: SetModel): string {
  return set.content.source.label;
}

export interface UpdateContext extends WriteContext {
  /** "keep" leaves the files that the set no longer names. */
  readonly old?: "keep" | "remove" | undefined;
}

/** What an update did. */
export interface UpdateResult {
  readonly file: Omit<SetFile, "version">;
  /** Names of removed files, which the set no longer names. */
  readonly removed: readonly string[];
}

/**
 * Writes the new part and the new index under new names, replaces the JSON in one step, then removes the files that it
 * no longer names. The output must be able to replace files; no other part is touched.
 */
export async function writeUpdate(plan: UpdatePlan, output: Output, context: UpdateContext): Promise<UpdateResult> {
  const sinks = new Map<string, Sink>();
  const published: string[] = [];
  let file: Omit<SetFile, "version">;
  try {
    const { sink, tensors } = await writePart(plan.part, output, context);
    sinks.set(plan.part.name, sink);
    const part = await sealFile(plan.part, sink, context);
    const index = await writeIndex(plan.index, fillHashes(plan, tensors), { output, context });
    sinks.set(plan.index.name, index.sink);
    file = replaceEntries(plan, part, index);
    const json = await output.create(output.name);
    sinks.set(output.name, json);
    await json.append(encodeSetFile(file));
    await checkSet(plan, { sinks, output, context });
    await checkUnchanged(plan, output);
    for (const sealed of [part, index]) {
      await sealed.sink.commit();
      published.push(sealed.file.name);
    }
    await json.commit();
  } catch (error) {
    await Promise.allSettled([...sinks.values()].map((sink) => sink.abort()));
    for (const name of published) await output.remove?.(name);
    throw error;
  }
  return { file, removed: context.old === "keep" ? [] : await removeOld(plan, file, output) };
}

function fillHashes({ hashes, places }: UpdatePlan, tensors: readonly Bytes[]): readonly (Bytes | undefined)[] {
  const filled = [...hashes];
  for (const [i, place] of places.entries()) filled[place] = tensors[i];
  return filled;
}

function replaceEntries({ set, old }: UpdatePlan, part: SealedFile, index: SealedFile): Omit<SetFile, "version"> {
  const { model, baseUrl, cache, parts } = set.content.file;
  const entry = ({ file, sha256, sizeBytes }: SealedFile): SetEntry => ({ path: file.name, sha256, sizeBytes });
  return {
    model,
    ...(baseUrl === undefined ? {} : { baseUrl }),
    parts: parts.map((other, i) => (i === old.number ? { ...entry(part), shards: part.file.image.shardIds } : other)),
    globalIndex: entry(index),
    ...(cache === undefined ? {} : { cache }),
  };
}

interface UpdateFiles {
  readonly sinks: ReadonlyMap<string, Sink>;
  readonly output: Output;
  readonly context: UpdateContext;
}

/** Opens the new set before it is published, and the new part through it. */
async function checkSet({ old, part }: UpdatePlan, { sinks, output, context }: UpdateFiles): Promise<void> {
  const opened: Source[] = [];
  const resolve = readerOf(sinks, output, opened);
  const { engine, signal } = context;
  try {
    const source = await resolve(output.name);
    const set = await openAeroset(source, { engine, limits: {}, signal, resolver: { name: output.name, resolve } });
    await set.content.partFiles[old.number]?.open();
    const names = new Set(part.image.rows.map(({ name }) => name));
    // Throws if index and part disagree.
    for (const [i, { name }] of set.content.entries.entries()) if (names.has(name)) set.place(i);
  } finally {
    await Promise.allSettled(opened.map((source) => source.close()));
  }
}

/** Refuses if another update happened in the meantime: this one would undo it. */
async function checkUnchanged({ set }: UpdatePlan, output: Output): Promise<void> {
  const before = set.content.source;
  const now = await output.peek?.(output.name);
  if (now === undefined) return;
  try {
    if (now.byteLength === before.byteLength && equalBytes(await readAll(now), await readAll(before))) return;
  } finally {
    await now.close();
  }
  const message = "Cannot replace a part: the set was changed in the meantime";
  throw new SourceError("source/changed", message, { source: output.label }, { hint: "Run the command again" });
}

function readAll(source: Source): Promise<Bytes> {
  return source.read(0, source.byteLength);
}

/** Only files in the set's own folder that it named before and does not name now. */
async function removeOld({ set, old }: UpdatePlan, file: Omit<SetFile, "version">, output: Output): Promise<string[]> {
  const named = new Set([file.globalIndex.path, ...file.parts.map(({ path }) => path)]);
  const candidates = [old.entry.path, set.content.file.globalIndex.path];
  const removed: string[] = [];
  for (const path of candidates) {
    if (named.has(path) || /^[a-z][a-z0-9+.-]*:/i.test(path)) continue;
    await output.remove?.(path);
    removed.push(path);
  }
  return removed;
}
