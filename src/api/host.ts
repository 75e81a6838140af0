import type { Bytes } from "../base/bytes.ts";
import { untilGrace } from "../bytes/abort.ts";
import type { Sink } from "../bytes/sink.ts";
import type { Source } from "../bytes/source.ts";
import type { GroupRunner } from "../embedding/encoder/encoder-thread.ts";
import type { Archive } from "../model/archive.ts";
import type { Finding } from "../model/finding.ts";
import type { Patch } from "../operations/stamp.ts";
import type { Engine } from "../primitives/engine.ts";
import type { InputHost } from "./inputs.ts";
import type { UpgradeResult, VaultUpgrading } from "./move/results.ts";
import { type CommonOptions, checkOptions, type OptionRules, type WriteOptions } from "./options.ts";
import type { Folder, OutputHost, OutputRequest } from "./outputs.ts";
import type { VaultHost } from "./vault/writer.ts";

/** What a runtime does for a verb. One for each call: it knows what the call reads, and spares it when it writes. */
export interface VerbHost extends InputHost, OutputHost, VaultHost {
  /** The engine that the options name. It belongs to the runtime, and is not closed by verbs. */
  engine(options: CommonOptions): Promise<Engine>;
  /**
   * The bytes of a file that an option names by its path, which may be a pipe. Refuses more than `maxBytes`. Absent
   * where there are no files.
   */
  readNamed?(text: string, request: CommonOptions, what: NamedFile): Promise<Bytes>;
  /** Writes an older vault as one of version 3. Absent where there are no files. */
  upgradeVault?(old: Archive, job: VaultUpgrading, request: Request): Promise<UpgradeResult>;
  /** What embedding in this runtime has beyond one thread; absent if there is nothing. */
  readonly embedding?: EmbeddingHost | undefined;
  /** A host for a later call that reads what this one has opened, and more. Itself if calls do not matter. */
  fork?(): VerbHost;
  /** What is wrong with what the call has read, if that is no error; its result lists it. Absent if nothing is known. */
  readonly doubts?: readonly Finding[] | undefined;
  /** SOURCE_DATE_EPOCH, the time that the environment gives to what is made. Absent where there is no environment. */
  sourceDate?(options: CommonOptions): string | undefined;
  /** Tells a warning about what is read or written. If absent, `onNote` gets it. */
  warn?(text: string): void;
  /** Files of this machine; absent where there are none. */
  disk?(options: OutputRequest): Promise<Disk>;
}

/** What verbs do with files of this machine besides opening inputs and writing outputs. */
export interface Disk {
  /** The text of a file with a key; no longer than one can be. */
  readKey(path: string): Promise<string>;
  /** The text of a file of the library's own, such as a list of digests. */
  readText(path: string, action: string): Promise<string>;
  /** True if there is a file of this name. */
  has(path: string): Promise<boolean>;
  /** Finishes an edit of the file that an input names, if a crash has interrupted one; then the file's path. */
  finishEdit(input: string): Promise<string | undefined>;
  /** A file that a verb replaces or edits in its place, or puts beside what it reads. */
  fileAt(path: string, rule: OwnFileRule): OwnFile;
}

export interface OwnFileRule {
  /** "rewritten" if the file is an input, and its new content is made of all of it. */
  readonly inputs: "kept" | "rewritten";
  /** "replace" if a link of this name is replaced, because the user did not type the name. */
  readonly links?: "replace" | undefined;
  /** "refused" if nothing may have the name yet. */
  readonly existing?: "refused" | undefined;
}

export interface OwnFile {
  /** Refuses a file that the call reads, but for what the rule allows. */
  checkInputs(): Promise<void>;
  /** Refuses what cannot be replaced: a folder, a device, a protected file. */
  checkReplaceable(): Promise<void>;
  /** What is committed takes the file's place. */
  create(): Promise<Sink>;
  /** Writes over bytes of the file, so that a crash in the middle can be repaired. */
  patch(patches: readonly Patch[]): Promise<void>;
}

/** A file that an option names. */
export interface NamedFile {
  readonly option: string;
  readonly maxBytes: number;
}

/** Threads, and a file system for the vectors of a corpus. */
export interface EmbeddingHost {
  /** Other threads to compute on; undefined if there are none. `threads` is what the caller asked for. */
  runner(threads: number | undefined): Promise<GroupRunner | undefined>;
  /** The text and Markdown files below a folder, in the order of their names; undefined if the path is no folder. */
  textFiles(path: string, signal: AbortSignal | undefined): Promise<readonly TextFile[] | undefined>;
  /** The file that keeps the vectors of a corpus. */
  indexFile(path: string, signal: AbortSignal | undefined): Promise<IndexFile>;
}

/** A file of texts in a folder. */
export interface TextFile {
  /** From the folder, with slashes: "notes/tides.md". */
  readonly name: string;
  /** The caller closes it. */
  open(): Promise<Source>;
}

/** A file that is read whole and replaced whole. */
export interface IndexFile {
  /** Undefined if there is none yet. The caller closes it. */
  read(): Promise<Source | undefined>;
  /** Where it is replaced in one step. */
  folder(): Promise<Folder>;
}

/** The options of one call, checked, with the engine that they name. */
export type Request<O extends CommonOptions = WriteOptions> = O & { readonly engine: Engine };

/** The beginning of every verb: refuses wrong options and an aborted signal before anything is opened. */
export async function requestOf<O extends CommonOptions>(
  host: Pick<VerbHost, "engine"> & Partial<Pick<VerbHost, "explain" | "formats">>,
  verb: string,
  options: O,
  rules: OptionRules,
): Promise<Request<O>> {
  checkOptions(verb, options, rules);
  options.signal?.throwIfAborted();
  // Without effect, a limit that no format has would only seem to protect.
  if (options.limits !== undefined) await (await host.explain?.())?.checkLimits(verb, options, host.formats);
  return { ...options, engine: await host.engine(options) };
}

/** A warning, wherever the runtime shows it. */
export function warnOf(host: VerbHost, { onNote }: CommonOptions): (text: string) => void {
  return (text) => (host.warn === undefined ? onNote?.(text) : host.warn(text));
}

/** What a verb returns, with what is doubtful about its inputs among the warnings, as `--json` prints it. */
export function withDoubts<T>({ doubts = [] }: Pick<VerbHost, "doubts">, result: T): T {
  if (doubts.length === 0 || !isPlain(result)) return result;
  const { warnings } = result as { readonly warnings?: readonly Finding[] };
  return { ...result, warnings: [...(warnings ?? []), ...doubts] };
}

/** Models, vaults and lists are no reports. */
function isPlain(value: unknown): value is object {
  return typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}

/**
 * Runs a call that may write to streams. If it fails, it tells them why, as `pipeTo` does, so that no reader waits at their
 * other end; also where it had not begun to write. One that something else is writing to is left alone.
 */
export async function withStreams<T>(outputs: readonly unknown[], work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    for (const output of outputs) {
      if (output instanceof WritableStream && !output.locked) await untilGrace(() => output.abort(error));
    }
    throw error;
  }
}
