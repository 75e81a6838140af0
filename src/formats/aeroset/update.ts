import type { Bytes } from "../../base/bytes.ts";
import { SourceError } from "../../base/errors.ts";
import type { Output, Sink } from "../../bytes/sink.ts";
import type { Source } from "../../bytes/source.ts";
import type { WriteContext } from "../../model/format.ts";
import { encodeSetFile, type SetEntry, type SetFile } from "./index-file.ts";
import { openAeroset } from "./open.ts";
import type { UpdatePlan } from "./update-plan.ts";
import { readerOf, type SealedFile, sealFile, writeIndex, writePart } from "./write-file.ts";

export interface UpdateContext extends WriteContext {
  /** "keep" leaves the files that the set no longer names. */
  readonly old?: "keep" | "remove" | undefined;
}

/** What an update did. */
export interface UpdateResult {
  readonly file: Omit<SetFile, "version">;
  /** Names of files that the set no longer names and that are gone. */
  readonly removed: readonly string[];
}

/**
 * Writes the new part and the new index under names of their own, swaps the JSON in one step, then removes what it no
 * longer names. The output must replace files; no other part is touched.
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

/** Opens the set as it will be, and the new part through it. */
async function checkSet({ old, part }: UpdatePlan, { sinks, output, context }: UpdateFiles): Promise<void> {
  const opened: Source[] = [];
  const resolve = readerOf(sinks, output, opened);
  const { engine, signal } = context;
  try {
    const source = await resolve(output.name);
    const set = await openAeroset(source, { engine, limits: {}, signal, resolver: { name: output.name, resolve } });
    await set.content.partFiles[old.number]?.open();
    const names = new Set(part.image.rows.map(({ name }) => name));
    // Throws where index and part disagree.
    for (const [i, { name }] of set.content.entries.entries()) if (names.has(name)) set.place(i);
  } finally {
    await Promise.allSettled(opened.map((source) => source.close()));
  }
}

/** Another update in the meantime would be undone by this one. */
async function checkUnchanged({ set }: UpdatePlan, output: Output): Promise<void> {
  const before = set.content.source;
  const now = await output.peek?.(output.name);
  if (now === undefined) return;
  try {
    const isSame = now.byteLength === before.byteLength && equalBytes(await readAll(now), await readAll(before));
    if (isSame) return;
  } finally {
    await now.close();
  }
  const message = "Cannot replace a part: the set was changed in the meantime";
  throw new SourceError("source/changed", message, { source: output.label }, { hint: "Run the command again" });
}

function readAll(source: Source): Promise<Bytes> {
  return source.read(0, source.byteLength);
}

function equalBytes(a: Bytes, b: Bytes): boolean {
  return a.every((byte, i) => byte === b[i]);
}

/** Only files of the set's own folder that it named before and does not now. */
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
