import { FormatError, IntegrityError, isTareError, reviveError, type TareError } from "../../../base/errors.ts";
import { sliceSource } from "../../../bytes/slice.ts";
import type { Source } from "../../../bytes/source.ts";
import { planEntry } from "../../../formats/aerovault/archive.ts";
import { checkCurrent, explainFault } from "../../../formats/aerovault/freshness.ts";
import type { ManifestEntry } from "../../../formats/aerovault/manifest/records.ts";
import { manifestPlace, type Vault } from "../../../formats/aerovault/vault.ts";
import type { Entry } from "../../../model/archive.ts";
import { type ExtractJob, type PlannedFile, planExtractJobs } from "../../../operations/vault/extract/plan.ts";
import {
  type ExtractRequest,
  type ExtractTarget,
  type LostFile,
  runExtractJob,
} from "../../../operations/vault/extract/worker.ts";
import type { Engine } from "../../../primitives/engine.ts";
import { type HeldOpen, holdFile } from "../files/blocking-source.ts";
import { hasDescriptorPaths } from "../files/own-folder.ts";
import type { OpenFolder } from "./folders.ts";
import { ExtractPlaces, type Place, type PlacedFacts, type PlacesOptions } from "./places.ts";
import { CreatedFile, openExtractTarget, stageExtraction } from "./target.ts";

export interface ExtractOptions {
  readonly root: string;
  /** What errors call the root; its path if absent. */
  readonly label?: string | undefined;
  readonly overwrite: "refuse" | "replace";
  /** Runs one job, on another thread if there is one. */
  readonly run: (request: ExtractRequest) => Promise<readonly LostFile[]>;
  readonly engine: Engine;
  /** Called for jobs that do not go through `run`, with the bytes of decoded chunks. */
  readonly onProgress?: ((byteLength: number) => void) | undefined;
  /** Jobs that run at the same time. */
  readonly width: number;
  readonly signal?: AbortSignal | undefined;
}

/** What an extraction wrote. */
export interface ExtractReport {
  readonly files: number;
  readonly directories: number;
  readonly byteLength: number;
  /** Files that were not written because they cannot be proven, with the reason, in the order of their entries. */
  readonly lost: readonly LostEntry[];
}

export interface LostEntry {
  readonly path: string;
  readonly error: TareError;
}

/**
 * Writes entries below a folder: a temporary file and a rename for each, no link followed inside the folder, and
 * existing files replaced only on request. A file that cannot be proven is left out and reported; the others are
 * written. Files that were complete before any other failure stay. If folders cannot be held
 * open by descriptors, everything goes to a fresh folder first and is moved when it is complete.
 */
export async function extractEntries(
  vault: Vault,
  entries: readonly ManifestEntry[],
  options: ExtractOptions,
): Promise<ExtractReport> {
  if (hasDescriptorPaths()) return new Extraction(vault, options).run(entries);
  return stageExtraction(options, (staged) => new Extraction(vault, staged).run(entries));
}

class Extraction {
  readonly #vault: Vault;
  readonly #options: ExtractOptions;
  readonly #places: ExtractPlaces;
  /** Damaged files by their paths. */
  readonly #lost = new Map<string, TareError>();

  constructor(vault: Vault, options: ExtractOptions) {
    this.#vault = vault;
    this.#options = options;
    this.#places = new ExtractPlaces(options);
  }

  async run(entries: readonly ManifestEntry[]): Promise<ExtractReport> {
    const directories = entries.filter((entry) => entry.isDir);
    try {
      const files = this.#places.prepare(() => {
        const planned = entries.filter((entry) => !entry.isDir).map((entry) => this.#plan(entry));
        for (const { path } of directories) this.#places.makeFolder(path);
        this.#places.checkApart(
          planned.map(({ target }) => target.entry.path),
          directories.map(({ path }) => path),
        );
        return planned;
      });
      await this.#runAll(planExtractJobs(files), holdFile(this.#vault.source.descriptor, this.#vault.source.label));
      const written = files.filter(({ target }) => !this.#lost.has(target.entry.path));
      await this.#places.syncFiles(written.map(({ target }) => target.place));
      this.#places.finish(directories.map(factsOf));
      return reportOf(files, written, { directories: directories.length, lost: this.#lost });
    } catch (error) {
      this.#places.abandon(directories.map(factsOf));
      throw error;
    } finally {
      this.#places.close();
    }
  }

  /** Finds every error in the manifest and every name that is taken before the first write. */
  #plan(entry: ManifestEntry): PlannedFile<PlacedEntry> {
    const { manifest, chunks, keys } = this.#vault;
    const context = { chunks: manifest.chunks, store: chunks, lane: keys.lane };
    const plan = planEntry(entry, context, manifestPlace(this.#vault));
    const place = this.#places.reserve(entry.path);
    return { target: { entry, place }, size: entry.size, plan };
  }

  /** A few jobs at a time; the first failure stops the rest. */
  async #runAll(jobs: readonly ExtractJob<PlacedEntry>[], held: HeldOpen | undefined): Promise<void> {
    const parts = new PartFiles(jobs);
    const vault = held?.file ?? this.#vault.source.descriptor;
    let next = 0;
    let failed = false;
    const work = async (): Promise<void> => {
      while (!failed && next < jobs.length) {
        this.#options.signal?.throwIfAborted();
        const job = jobs[next++] as (typeof jobs)[number];
        await this.#runJob(job, parts, vault);
      }
    };
    const guarded = async (): Promise<void> => {
      try {
        await work();
      } catch (error) {
        failed = true;
        throw error;
      }
    };
    const results = await Promise.allSettled(Array.from({ length: this.#options.width }, guarded));
    held?.close();
    const failure = results.find((result) => result.status === "rejected");
    if (failure === undefined) return;
    parts.abort();
    throw failure.reason;
  }

  async #runJob(job: ExtractJob<PlacedEntry>, parts: PartFiles, vault: ExtractRequest["vault"]): Promise<void> {
    const folders = job.files.map(({ target }) => target.place.folder);
    const opened = folders.map((path) => this.#places.folders.acquire(path));
    try {
      const files = job.files.map(({ target, size }, i) => {
        const create = this.#places.target(factsOf(target.entry), target.place, opened[i] as OpenFolder);
        return { target: job.extent === "part" ? parts.open(target.entry.path, create) : create, size };
      });
      const { source, keys } = this.#vault;
      const request = { vault, label: source.label, keys, job: { ...job, files } };
      for (const { file, error } of await this.#run(request)) {
        const { path } = (job.files[file] as (typeof job.files)[number]).target.entry;
        await checkCurrent(this.#vault);
        if (!this.#lost.has(path)) this.#lost.set(path, reviveError(error));
      }
      if (job.extent === "part") this.#endPart((job.files[0] as (typeof job.files)[number]).target.entry.path, parts);
    } finally {
      for (const path of folders) this.#places.folders.release(path);
    }
  }

  #endPart(path: string, parts: PartFiles): void {
    parts.done(path, this.#lost.has(path) ? "drop" : "keep");
  }

  async #run(request: ExtractRequest): Promise<readonly LostFile[]> {
    try {
      if (request.vault === undefined) return await this.#runHere(request);
      return await this.#options.run(request).catch((error: unknown) => {
        // The worker could not open what this thread still has open; nothing of the job is written yet.
        if (isTareError(error) && error.code === "source/changed") return this.#runHere(request);
        throw error;
      });
    } catch (error) {
      throw await explainFault(error, this.#vault);
    }
  }

  /** This thread reads a vault at a URL or inside another vault. */
  #runHere(request: ExtractRequest): Promise<readonly LostFile[]> {
    const { engine, signal, onProgress } = this.#options;
    const { source } = this.#vault;
    const open = async (): Promise<Source> => sliceSource(source, 0, source.byteLength);
    return runExtractJob(request, { engine, signal, onProgress, open, openTarget: openExtractTarget });
  }
}

interface PlacedEntry {
  readonly entry: ManifestEntry;
  readonly place: Place;
}

function reportOf(
  all: readonly PlannedFile<PlacedEntry>[],
  written: readonly PlannedFile<PlacedEntry>[],
  { directories, lost }: { readonly directories: number; readonly lost: ReadonlyMap<string, TareError> },
): ExtractReport {
  const byteLength = written.reduce((sum, { size }) => sum + size, 0);
  const paths = all.map(({ target }) => target.entry.path).filter((path) => lost.has(path));
  return {
    files: written.length,
    directories,
    byteLength,
    lost: paths.map((path) => ({ path, error: lost.get(path) as TareError })),
  };
}

/** Long files that several jobs write. */
class PartFiles {
  readonly #files = new Map<string, { readonly file: CreatedFile; left: number }>();
  readonly #counts = new Map<string, number>();

  constructor(jobs: readonly ExtractJob<{ readonly entry: ManifestEntry }>[]) {
    for (const { extent, files } of jobs) {
      const path = extent === "part" ? files[0]?.target.entry.path : undefined;
      if (path !== undefined) this.#counts.set(path, (this.#counts.get(path) ?? 0) + 1);
    }
  }

  open(path: string, target: Extract<ExtractTarget, { kind: "create" }>): ExtractTarget {
    let part = this.#files.get(path);
    if (part === undefined) {
      part = { file: new CreatedFile(target), left: this.#counts.get(path) ?? 1 };
      this.#files.set(path, part);
    }
    return { kind: "open", descriptor: part.file.descriptor, label: target.label };
  }

  /** One part is done. The last one decides: other threads may still write to a file before that. */
  done(path: string, fate: "keep" | "drop"): void {
    const part = this.#files.get(path);
    if (part === undefined || --part.left > 0) return;
    if (fate === "keep") part.file.finish();
    else part.file.abort();
    this.#files.delete(path);
  }

  abort(): void {
    for (const { file } of this.#files.values()) file.abort();
    this.#files.clear();
  }
}

function factsOf({ path, mode, mtime }: ManifestEntry): PlacedFacts {
  return { path, mode, mtime: secondsOf(mtime) };
}

function secondsOf(mtime: string | undefined): number | undefined {
  const parsed = mtime === undefined ? Number.NaN : Date.parse(mtime);
  return Number.isFinite(parsed) ? parsed / 1000 : undefined;
}

export interface ArchiveExtractOptions extends PlacesOptions {
  readonly onProgress?: ((byteLength: number) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Writes entries of any archive below a folder, one after the other, with the care of `extractEntries`: every name is
 * checked before the first write, no file is visible before it is complete, and a file that cannot be proven is left
 * out and reported.
 */
export async function extractArchiveEntries(
  entries: readonly Entry[],
  options: ArchiveExtractOptions,
): Promise<ExtractReport> {
  if (hasDescriptorPaths()) return extractAll(entries, options);
  return stageExtraction(options, (staged) => extractAll(entries, staged));
}

async function extractAll(entries: readonly Entry[], options: ArchiveExtractOptions): Promise<ExtractReport> {
  const places = new ExtractPlaces(options);
  const directories = entries.filter(({ type }) => type === "directory");
  try {
    const files = entries.filter(({ type }) => type === "file");
    const reserved = places.prepare(() => {
      for (const { path } of directories) places.makeFolder(path);
      const placed = files.map((entry) => ({ entry, place: places.reserve(entry.path) }));
      places.checkApart(
        files.map(({ path }) => path),
        directories.map(({ path }) => path),
      );
      return placed;
    });
    const lost: LostEntry[] = [];
    const written: typeof reserved = [];
    for (const one of reserved) {
      const error = await extractFile(one.entry, one.place, places, options).catch(faultOf);
      if (error === undefined) written.push(one);
      else lost.push({ path: one.entry.path, error });
    }
    await places.syncFiles(written.map(({ place }) => place));
    places.finish(directories.map(archiveFactsOf));
    const byteLength = written.reduce((sum, { entry }) => sum + entry.size, 0);
    return { files: written.length, directories: directories.length, byteLength, lost };
  } catch (error) {
    places.abandon(directories.map(archiveFactsOf));
    throw error;
  } finally {
    places.close();
  }
}

async function extractFile(
  entry: Entry,
  place: Place,
  places: ExtractPlaces,
  { signal, onProgress }: ArchiveExtractOptions,
): Promise<undefined> {
  const source = entry.source();
  const folder = places.folders.acquire(place.folder);
  try {
    const file = new CreatedFile(places.target(archiveFactsOf(entry), place, folder));
    try {
      let at = 0;
      for await (const piece of source.stream(0, { signal })) {
        file.write(piece, at);
        at += piece.byteLength;
        onProgress?.(piece.byteLength);
      }
      file.finish();
    } catch (error) {
      file.abort();
      throw error;
    }
  } finally {
    places.folders.release(place.folder);
    await source.close();
  }
}

/** A fault of the file itself, as a value. Errors of the disk, the network or the password stop the extraction. */
function faultOf(error: unknown): TareError {
  if (error instanceof IntegrityError || error instanceof FormatError) return error;
  throw error;
}

function archiveFactsOf({ path, mode, modified }: Entry): PlacedFacts {
  return { path, mode, mtime: modified === undefined ? undefined : modified / 1000 };
}
