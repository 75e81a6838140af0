import type { Input } from "../../../api/inputs.ts";
import { type Verbs, verbsOn } from "../../../api/verbs.ts";
import type { Sink } from "../../../bytes/sink.ts";
import type { OpenSource } from "../../../bytes/source.ts";
import type {
  CacheClearOptions,
  CacheListResult,
  CachePruneOptions,
  CachePruneResult,
  CacheVerifyOptions,
  CacheVerifyResult,
} from "../cache/index.ts";
import type { PullOptions, PullResult } from "../pull/index.ts";
import type { PushOptions, PushResult } from "../push/index.ts";
import type { ServeOptions, Server } from "../serve/index.ts";
import type { ViewOptions, ViewServer } from "../serve/view.ts";
import type { AerosetUpdateOptions, AerosetUpdateResult } from "./aeroset.ts";
import type {
  CorrectGenerateOptions,
  CorrectGenerateResult,
  CorrectRepairOptions,
  CorrectRepairResult,
  CorrectVerifyOptions,
  CorrectVerifyResult,
} from "./correct.ts";
import type { DoctorResult } from "./doctor.ts";
import type { KeygenOptions, KeygenResult } from "./keygen.ts";

/** The verbs of the library in Node: text may be a path, and everything runs at native speed. */
export const nodeVerbs: Verbs = verbsOn(async () => (await import("../host.ts")).nodeHost());

/** What exists only in Node. Each is loaded when it is called. */
export interface NodeVerbs {
  /**
   * Mirrors a file or a whole set into a folder: over several connections, resumable, and compared with every digest
   * there is before anything gets its name. Files that are there and current are not fetched again.
   *
   * @example
   * const { files } = await pull("https://models.example/model.aeroset.json", "models", { limitRate: "20MB" });
   */
  pull(url: string | URL, output: string | URL, options?: PullOptions): Promise<PullResult>;
  /**
   * Uploads a file, a folder, or a set by its index or first file, to object storage. An object appears when it is
   * complete. A call that was interrupted goes on where it stopped when it is made again.
   *
   * @example
   * await push("model.aero", "s3://models/llama/", { partSize: "64MiB" });
   */
  push(path: string | URL, destination: string | URL, options?: PushOptions): Promise<PushResult>;
  /**
   * Serves the files below a folder over HTTP, for reading, and the viewer at its root; or the files of a vault, to file
   * managers too (WebDAV), under an address that cannot be guessed. Resolves when it listens.
   *
   * @example
   * await using server = await serve("models", { port: 0 });
   * console.log(server.url);
   */
  serve(path: string | URL, options?: ServeOptions): Promise<Server>;
  /**
   * Shows one input in the viewer, on this machine alone and under a path that cannot be guessed, until it is closed.
   *
   * @example
   * await using viewer = await view("model.gguf");
   * console.log(viewer.url);
   */
  view(input: Input, options?: ViewOptions): Promise<ViewServer>;
  /**
   * Makes a pair of Ed25519 keys: NAME.key, which signs, and NAME.pub, which others verify with.
   *
   * @example
   * const { privateKey, id } = await keygen("release");
   */
  keygen(output: string | URL, options?: KeygenOptions): Promise<KeygenResult>;
  /** Parity for any file, beside it. */
  readonly correct: {
    /**
     * Writes FILE.aerocorrect, from which damage is found and healed. The file is not changed.
     *
     * @example
     * await correct.generate("model.gguf", { parity: "25%" });
     */
    generate(file: string | URL, options?: CorrectGenerateOptions): Promise<CorrectGenerateResult>;
    /**
     * Whether the file is still the one that was protected; else whether it can be healed.
     *
     * @example
     * const { ok, state } = await correct.verify("model.gguf");
     */
    verify(file: string | URL, options?: CorrectVerifyOptions): Promise<CorrectVerifyResult>;
    /**
     * Heals the file in place, or into `output`. SHA-256 of the whole is compared before the first byte is written.
     *
     * @example
     * const { repaired } = await correct.repair("model.gguf");
     */
    repair(file: string | URL, options?: CorrectRepairOptions): Promise<CorrectRepairResult>;
  };
  /** What is kept of remote files. */
  readonly cache: {
    /**
     * The cached files, the one used last first.
     *
     * @example
     * for (const { url, byteLength } of (await cache.list()).files) console.log(url, byteLength);
     */
    list(): Promise<CacheListResult>;
    /**
     * Reads every entry and compares every checksum.
     *
     * @example
     * const { ok, removed } = await cache.verify({ fix: true });
     */
    verify(options?: CacheVerifyOptions): Promise<CacheVerifyResult>;
    /**
     * Removes what was used longest ago.
     *
     * @example
     * await cache.prune({ maxSize: "500MB" });
     */
    prune(options?: CachePruneOptions): Promise<CachePruneResult>;
    /**
     * Removes everything.
     *
     * @example
     * const { removed } = await cache.clear();
     */
    clear(options?: CacheClearOptions): Promise<CachePruneResult>;
    /**
     * Where the cache is.
     *
     * @example
     * console.log((await cache.path()).path);
     */
    path(): Promise<{ readonly path: string }>;
  };
  /** Sets of AERO files. */
  readonly aeroset: {
    /**
     * Replaces one part of a set by the tensors of another model. Readers see the old set or the new one, never a
     * mixture.
     *
     * @example
     * const { part, files } = await aeroset.update("model.aeroset.json", "layer-7.aero");
     */
    update(set: string | URL, part: Input, options?: AerosetUpdateOptions): Promise<AerosetUpdateResult>;
  };
  /**
   * What this machine offers, and how fast. Measures every primitive for a moment; sends nothing anywhere.
   *
   * @example
   * const { engine, formats } = await doctor();
   */
  doctor(): Promise<DoctorResult>;
  /**
   * A file as a Source. Close it when done.
   *
   * @example
   * const source = await fileSource("model.gguf");
   */
  fileSource(path: string | URL): Promise<OpenSource>;
  /**
   * A Sink that becomes the file when it is committed. Its folder must exist.
   *
   * @example
   * const sink = await fileSink("model.gguf", { force: true });
   */
  fileSink(path: string | URL, options?: { readonly force?: boolean | undefined }): Promise<Sink>;
}

export const { pull, push, serve, view, keygen, correct, cache, aeroset, doctor, fileSource, fileSink }: NodeVerbs = {
  pull: async (...call) => (await import("../pull/index.ts")).pull(...call),
  push: async (...call) => (await import("../push/index.ts")).push(...call),
  serve: async (...call) => (await import("../serve/index.ts")).serve(...call),
  view: async (...call) => (await import("../serve/view.ts")).view(...call),
  keygen: async (...call) => (await import("./keygen.ts")).keygen(...call),
  correct: {
    generate: async (...call) => (await import("./correct.ts")).generate(...call),
    verify: async (...call) => (await import("./correct.ts")).verify(...call),
    repair: async (...call) => (await import("./correct.ts")).repair(...call),
  },
  // What the command line adds to a call is not for callers.
  cache: {
    list: async () => (await import("../cache/index.ts")).list(),
    verify: async (options) => (await import("../cache/index.ts")).verify(options),
    prune: async (options) => (await import("../cache/index.ts")).prune(options),
    clear: async (options) => (await import("../cache/index.ts")).clear(options),
    path: async () => (await import("../cache/index.ts")).path(),
  },
  aeroset: {
    update: async (...call) => (await import("./aeroset.ts")).update(...call),
  },
  doctor: async () => (await import("./doctor.ts")).doctor(),
  fileSource: async (path) => (await import("../disk.ts")).fileSource(path),
  fileSink: async (...call) => (await import("../disk.ts")).fileSink(...call),
};
