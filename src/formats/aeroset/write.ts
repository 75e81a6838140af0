import type { Bytes } from "../../base/bytes.ts";
import { FormatError, IntegrityError, SourceError, UnsupportedError, UsageError } from "../../base/errors.ts";
import { encodeHex } from "../../base/text.ts";
import type { Output, Sink } from "../../bytes/sink.ts";
import type { Source } from "../../bytes/source.ts";
import type { FormatWriter, WriteContext, WritePlan } from "../../model/format.ts";
import { openAero } from "../aero/read.ts";
import { writeControl } from "../aero/write/control.ts";
import { checkSeekable } from "../aero/write/shards.ts";
import { writeImage } from "../aero/write.ts";
import { aeroset } from "./index.ts";
import { type AerosetPlan, type FileImage, planAeroset, type SetImage } from "./plan.ts";
import { type LogPlace, openResumeLog, type ResumeLog, type SealedFile } from "./resume.ts";
import { encodeSetFile, type SetEntry, type SetPart } from "./set-file.ts";

/**
 * Writes the parts one after the other, then the index, then the JSON, without which there is no set. Each part gets
 * its name as soon as it is complete, so that an interrupted run can be resumed. If a set exists already, no file gets
 * its name before everything is complete: the old set stays intact until then.
 */
export async function writeAeroset(plan: WritePlan, output: Output, context: WriteContext): Promise<void> {
  // The plan is ours: operations hand back what `plan` gave them.
  const { set, primary } = plan as AerosetPlan;
  await checkFree(output, primary);
  const log = await openResumeLog(set, { output, context });
  const writer = new SetWriter(withUuid(set, log.uuid), log, { output, context });
  const mode = (await exists(output, primary)) ? "together" : "one by one";
  try {
    await writer.run(primary, mode);
  } catch (error) {
    await writer.abort();
    throw error;
  }
}

/** Refuses a name that is taken, by the output's rules, before any work is done. */
async function checkFree(output: Output, name: string): Promise<void> {
  const sink = await output.create(name);
  await sink.abort();
}

async function exists(output: Output, name: string): Promise<boolean> {
  const source = await output.peek?.(name);
  await source?.close();
  return source !== undefined;
}

/** Places and lengths do not depend on the uuid. */
function withUuid(set: SetImage, uuid: Bytes): SetImage {
  const change = ({ name, image }: FileImage): FileImage => ({ name, image: { ...image, uuid } });
  return { ...set, parts: set.parts.map(change), index: change(set.index) };
}

/** What the JSON will say about a part, and the digests that the index needs. */
interface DonePart {
  readonly entry: SetPart;
  readonly tensors: readonly Bytes[];
}

class SetWriter {
  readonly #set: SetImage;
  readonly #log: ResumeLog;
  readonly #output: Output;
  readonly #context: WriteContext;
  readonly #done = new Map<FileImage, DonePart>();
  /** Sinks that have not been committed, by name. */
  readonly #open = new Map<string, Sink>();
  /** Complete files that wait for their names until all are complete. */
  readonly #waiting: SealedFile[] = [];
  /** Files of the set that have their names. */
  readonly #published: string[] = [];

  constructor(set: SetImage, log: ResumeLog, { output, context }: LogPlace) {
    this.#set = set;
    this.#log = log;
    this.#output = output;
    this.#context = context;
  }

  async run(primary: string, mode: "one by one" | "together"): Promise<void> {
    if (mode === "one by one") await this.#takeFinished();
    const missing = this.#set.parts.filter((part) => !this.#done.has(part));
    for (const { name } of [...missing, this.#set.index]) await checkFree(this.#output, name);
    await this.#writeParts(missing, mode);
    const index = await this.#writeIndex();
    const json = await this.#writeJson(primary, index);
    await this.#check(primary);
    if (mode === "together") {
      // From here on the old set is gone, until the new one is there.
      await this.#output.remove?.(primary);
      for (const sealed of this.#waiting) await this.#publish(sealed);
    }
    await this.#log.add(index);
    await this.#publish(index);
    await json.commit();
    this.#open.delete(primary);
    await this.#log.remove();
  }

  /** Drops files that have no name yet; finished parts stay for the next run. */
  async abort(): Promise<void> {
    await Promise.allSettled([...this.#open.values()].map((sink) => sink.abort()));
  }

  async #takeFinished(): Promise<void> {
    const kept = new Set<string>();
    for (const part of this.#set.parts) {
      const finished = await this.#log.takeFinished(part);
      if (finished === undefined) continue;
      kept.add(part.name);
      this.#published.push(part.name);
      this.#note(part, finished.sha256, finished.tensors);
      this.#context.onProgress?.(part.image.tensors.reduce((sum, { byteLength }) => sum + byteLength, 0));
    }
    await this.#log.discardOthers(kept);
  }

  /** Seals a part while the next one is written, one at a time. */
  async #writeParts(parts: readonly FileImage[], mode: "one by one" | "together"): Promise<void> {
    let sealing: Promise<void> = Promise.resolve();
    try {
      for (const part of parts) {
        const written = await writePart(part, this.#output, this.#context);
        this.#open.set(part.name, written.sink);
        await sealing;
        sealing = this.#seal(written, mode);
        sealing.catch(() => undefined); // awaited below, or before the next one
      }
      await sealing;
    } catch (error) {
      // A complete part is kept even if the one after it fails.
      await sealing.catch(() => undefined);
      throw error;
    }
  }

  async #seal({ file, sink, tensors }: WrittenPart, mode: "one by one" | "together"): Promise<void> {
    const sealed = await sealFile(file, sink, this.#context);
    this.#note(file, sealed.sha256, tensors);
    if (mode === "together") {
      this.#waiting.push(sealed);
      return;
    }
    await this.#log.add(sealed);
    await this.#publish(sealed);
  }

  #note(part: FileImage, sha256: string, tensors: readonly Bytes[]): void {
    const { shardIds, layout } = part.image;
    const entry: SetPart = { path: part.name, sha256, sizeBytes: layout.fileBytes, shards: shardIds };
    this.#done.set(part, { entry, tensors });
  }

  async #publish({ file, sink }: SealedFile): Promise<void> {
    await sink.commit();
    this.#open.delete(file.name);
    this.#published.push(file.name);
  }

  async #writeIndex(): Promise<SealedFile> {
    const hashes = this.#parts().flatMap(({ tensors }) => tensors);
    const sealed = await writeIndex(this.#set.index, hashes, { output: this.#output, context: this.#context });
    this.#open.set(sealed.file.name, sealed.sink);
    return sealed;
  }

  async #writeJson(primary: string, index: SealedFile): Promise<Sink> {
    const { model, baseUrl, cache } = this.#set;
    const globalIndex: SetEntry = { path: index.file.name, sha256: index.sha256, sizeBytes: index.sizeBytes };
    const parts = this.#parts().map(({ entry }) => entry);
    const sink = await this.#output.create(primary);
    this.#open.set(primary, sink);
    const optional = { ...(baseUrl === undefined ? {} : { baseUrl }), ...(cache === undefined ? {} : { cache }) };
    await sink.append(encodeSetFile({ model, ...optional, parts, globalIndex }));
    return sink;
  }

  /** In the order of the plan, whichever finished first. */
  #parts(): readonly DonePart[] {
    return this.#set.parts.map((part) => this.#done.get(part) as DonePart);
  }

  /** The next run must not take damaged files for finished ones. */
  async #discard(): Promise<void> {
    for (const name of this.#published) await this.#output.remove?.(name);
    await this.#log.remove();
  }

  /** Hands the set to the caller's check; a refused set cannot be resumed. */
  async #check(primary: string): Promise<void> {
    const { check } = this.#context;
    if (check === undefined) return;
    const opened: Source[] = [];
    const resolve = readerOf(this.#open, this.#output, opened);
    try {
      await check({ name: primary, resolve });
    } catch (error) {
      if (error instanceof IntegrityError || error instanceof FormatError) await this.#discard();
      throw error;
    } finally {
      await Promise.allSettled(opened.map((source) => source.close()));
    }
  }
}

export const writer: FormatWriter = {
  format: aeroset,
  options: ["align", "maxShardBytes", "maxPartShards", "baseUrl", "uuid", "pageHashes", "tensorHashes", "controlHash"],
  naming: { model: "model_name", architecture: "architecture" },
  plan: planAeroset,
  write: (plan, output, context) => writeAeroset(ownPlan(plan), output, context),
};

function ownPlan(plan: WritePlan): AerosetPlan {
  if ("set" in plan) return plan as AerosetPlan;
  throw new UsageError("usage/aeroset.container", "Cannot write AEROSET from another format's plan", {
    source: "plan",
  });
}

/** A part whose weights are in the sink. */
export interface WrittenPart {
  readonly file: FileImage;
  readonly sink: Sink;
  /** BLAKE3-256 of its tensors, in the order of its rows. */
  readonly tensors: readonly Bytes[];
}

export async function writePart(file: FileImage, output: Output, context: WriteContext): Promise<WrittenPart> {
  const sink = await output.create(file.name);
  try {
    const { tensors = [] } = await writeImage(file.image, checkSeekable(sink), context);
    return { file, sink, tensors: tensors as readonly Bytes[] };
  } catch (error) {
    await sink.abort();
    throw error;
  }
}

/** The index: everything in it is known, so it is written at once. */
export async function writeIndex(
  file: FileImage,
  hashes: readonly (Bytes | undefined)[],
  { output, context }: { readonly output: Output; readonly context: WriteContext },
): Promise<SealedFile> {
  const sink = await output.create(file.name);
  try {
    const seekable = checkSeekable(sink);
    seekable.reserve(file.image.layout.fileBytes);
    await writeControl(file.image, { shards: new Map(), tensors: hashes }, seekable, context);
    return await sealFile(file, sink, context);
  } catch (error) {
    await sink.abort();
    throw error;
  }
}

/**
 * Opens the written file and computes its SHA-256. The beginning of an AERO file is known last and SHA-256 goes from
 * the first byte to the last, so this is a second read. It runs in a worker, on pages that are still in memory, while
 * the next part is written.
 */
export async function sealFile(file: FileImage, sink: Sink, context: WriteContext): Promise<SealedFile> {
  const source = await sink.reopen?.();
  if (source === undefined) {
    const message = "Cannot write a set to an output that cannot be read back: its JSON holds digests of whole files";
    throw new UnsupportedError("unsupported/aeroset.unreadable-output", message, { source: sink.label });
  }
  try {
    await checkStructure(file, source, context);
    const { engine, signal } = context;
    const sizeBytes = source.byteLength;
    const digest = await engine.digestRange("sha256", source, { offset: 0, byteLength: sizeBytes, signal });
    return { file, sink, sizeBytes, sha256: encodeHex(digest) };
  } finally {
    await source.close();
  }
}

/** Every tensor must be where it was planned; a fault here is ours or the disk's. */
async function checkStructure({ name, image }: FileImage, source: Source, context: WriteContext): Promise<void> {
  const { engine, signal } = context;
  const { content } = await openAero(source, { engine, limits: {}, signal });
  const { tensors } = content.index;
  const isWhole =
    source.byteLength === image.layout.fileBytes &&
    tensors.length === image.rows.length &&
    image.rows.every((row, i) => tensors[i]?.name === row.name);
  if (!isWhole) throw new Error(`${name} was planned with ${image.rows.length} tensors, read back ${tensors.length}`);
}

/** Opens files of a set that is being written, with or without their final names, and adds them to `opened`. */
export function readerOf(
  sinks: ReadonlyMap<string, Sink>,
  output: Output,
  opened: Source[],
): (name: string) => Promise<Source> {
  return async (name) => {
    const sink = sinks.get(name);
    const source = await (sink === undefined ? output.peek?.(name) : sink.reopen?.());
    if (source === undefined) {
      throw new SourceError("source/not-found", `Cannot read back "${name}"`, { source: output.label });
    }
    opened.push(source);
    return source;
  };
}
