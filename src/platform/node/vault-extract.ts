import { sliceSource } from "../../bytes/slice.ts";
import type { Source } from "../../bytes/source.ts";
import { planEntry } from "../../formats/aerovault/entry-source.ts";
import type { ManifestEntry } from "../../formats/aerovault/manifest.ts";
import { manifestPlace, type Vault } from "../../formats/aerovault/vault.ts";
import { type ExtractRequest, type ExtractTarget, runExtractJob } from "../../operations/vault/extract-job.ts";
import { type ExtractJob, type PlannedFile, planExtractJobs } from "../../operations/vault/extract-plan.ts";
import type { Engine } from "../../primitives/engine.ts";
import { ExtractPlaces, type Place, type PlacedFacts } from "./extract-places.ts";
import { hasDescriptorPaths, type OpenFolder } from "./vault-folders.ts";
import { stageExtraction } from "./vault-staging.ts";
import { CreatedFile, openExtractTarget } from "./vault-target.ts";

export interface ExtractOptions {
  readonly root: string;
  /** What errors call the root; its path where absent. */
  readonly label?: string | undefined;
  readonly overwrite: "refuse" | "replace";
  /** Runs one job, on another thread where there is one. */
  readonly run: (request: ExtractRequest) => Promise<number>;
  readonly engine: Engine;
  /** For what `run` does not do: bytes of chunks that were decoded. */
  readonly onProgress?: ((byteLength: number) => void) | undefined;
  /** Jobs that are under way at once. */
  readonly width: number;
  readonly signal?: AbortSignal | undefined;
}

/** What an extraction wrote. */
export interface ExtractReport {
  readonly files: number;
  readonly directories: number;
  readonly byteLength: number;
}

/**
 * Writes entries below a folder: temporary file and rename for each, no link followed inside the folder, nothing that
 * exists replaced unless asked for. What was complete before a failure stays. Where folders cannot be held open by
 * descriptors, everything goes to a fresh folder first and is moved when it is complete.
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
      await this.#runAll(planExtractJobs(files));
      await this.#places.syncFiles(files.map(({ target }) => target.place));
      this.#places.finish(directories.map(factsOf));
      const byteLength = files.reduce((sum, { size }) => sum + size, 0);
      return { files: files.length, directories: directories.length, byteLength };
    } catch (error) {
      this.#places.abandon(directories.map(factsOf));
      throw error;
    } finally {
      this.#places.close();
    }
  }

  /** Everything that the manifest can be wrong about, and every name that is taken, is found before the first write. */
  #plan(entry: ManifestEntry): PlannedFile<{ readonly entry: ManifestEntry; readonly place: Place }> {
    const { manifest, chunks, keys } = this.#vault;
    const context = { chunks: manifest.chunks, store: chunks, lane: keys.lane };
    const plan = planEntry(entry, context, manifestPlace(this.#vault));
    const place = this.#places.reserve(entry.path);
    return { target: { entry, place }, size: entry.size, plan };
  }

  /** A few jobs at a time; the first failure stops the rest. */
  async #runAll(jobs: readonly ExtractJob<{ readonly entry: ManifestEntry; readonly place: Place }>[]): Promise<void> {
    const parts = new PartFiles(jobs);
    let next = 0;
    let failed = false;
    const work = async (): Promise<void> => {
      while (!failed && next < jobs.length) {
        this.#options.signal?.throwIfAborted();
        const job = jobs[next++] as (typeof jobs)[number];
        await this.#runJob(job, parts);
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
    const failure = results.find((result) => result.status === "rejected");
    if (failure === undefined) return;
    parts.abort();
    throw failure.reason;
  }

  async #runJob(
    job: ExtractJob<{ readonly entry: ManifestEntry; readonly place: Place }>,
    parts: PartFiles,
  ): Promise<void> {
    const folders = job.files.map(({ target }) => target.place.folder);
    const opened = folders.map((path) => this.#places.folders.acquire(path));
    try {
      const files = job.files.map(({ target, size }, i) => {
        const create = this.#places.target(factsOf(target.entry), target.place, opened[i] as OpenFolder);
        return { target: job.extent === "part" ? parts.open(target.entry.path, create) : create, size };
      });
      const { source, keys } = this.#vault;
      const request = { vault: source.descriptor, label: source.label, keys, job: { ...job, files } };
      await this.#run(request);
      if (job.extent === "part") parts.done((job.files[0] as (typeof job.files)[number]).target.entry.path);
    } finally {
      for (const path of folders) this.#places.folders.release(path);
    }
  }

  /** A vault behind a URL, or inside another one, is read by this thread. */
  #run(request: ExtractRequest): Promise<number> {
    if (request.vault !== undefined) return this.#options.run(request);
    const { engine, signal, onProgress } = this.#options;
    const { source } = this.#vault;
    const open = async (): Promise<Source> => sliceSource(source, 0, source.byteLength);
    return runExtractJob(request, { engine, signal, onProgress, open, openTarget: openExtractTarget });
  }
}

/** Long files that several jobs write to. */
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

  done(path: string): void {
    const part = this.#files.get(path);
    if (part === undefined || --part.left > 0) return;
    part.file.finish();
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
