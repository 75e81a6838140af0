import { stat } from "node:fs/promises";
import type { LimitOverrides } from "../src/base/limits.ts";
import { printable } from "../src/base/text.ts";
import type { Finding } from "../src/model/finding.ts";
import type { CacheProblem, DiskCache } from "../src/platform/node/disk-cache.ts";
import type { OpenedTarget } from "../src/platform/node/open-target.ts";
import type { InputFile } from "../src/platform/node/output-place.ts";
import type { Engine } from "../src/primitives/engine.ts";
import type { GlobalFlags } from "./global-flags.ts";
import { readLimits } from "./limits-file.ts";
import { openForCommand } from "./open-input.ts";
import { openOutputFile } from "./output-target.ts";
import { type Colors, chooseColors } from "./render/colors.ts";
import { encodeJson } from "./render/json.ts";
import { type Progress, type ProgressMode, type ProgressOptions, startProgress } from "./render/progress.ts";
import type { Terminal } from "./terminal.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

export interface ContextOptions {
  readonly command: string;
  readonly flags: GlobalFlags;
  readonly env: Environment;
  readonly terminal: Terminal;
  readonly signal: AbortSignal;
  /** Runs the callback when the process ends, however it does. */
  readonly onExit: (callback: () => void) => void;
  /** Where `show` writes instead of standard output: -o of a command whose result is a report. */
  readonly reportPath: string | undefined;
  /** Files on disk that the arguments name and that the command reads: nothing that it writes may take their place. */
  readonly inputs: readonly InputFile[];
}

/** The two readings of one result; only the one that is asked for is made. */
export interface Result {
  readonly json: () => unknown;
  /** Without a trailing newline. Long texts come in pieces, which are written as they are made and need not be kept. */
  readonly text: () => string | Iterable<string>;
}

/** What a command works with: the global flags, made into things. */
export interface Context extends ContextOptions {
  /** Colours of standard output. */
  readonly colors: Colors;
  /** Cells of a line of standard output; undefined where it is no terminal, and nothing is cut. */
  readonly width: number | undefined;
  /** The engine, made on first use. */
  engine(): Promise<Engine>;
  /** Says that a TARGET will be hashed as a whole: where it is a big local file, workers start while it is opened. */
  expectHashing(target: string): Promise<void>;
  /** What --limits says. */
  limits(): Promise<LimitOverrides>;
  /** The disk cache of remote files, made on first use; undefined where it is turned off. */
  cache(): Promise<DiskCache | undefined>;
  /** Opens a TARGET; it is closed when the command ends. */
  open(target: string): Promise<OpenedTarget>;
  /** A long job, shown while it lasts. */
  progress(options: ProgressOptions): Progress;
  /** Talk, on standard error; nothing with -q. */
  note(text: string): void;
  /** Talk that -q does not silence. */
  warn(text: string): void;
  /** A warning about what was opened: said whatever else is shown, and part of the command's document. */
  doubt(finding: Finding): void;
  /** The command's one result. */
  show(result: Result): Promise<void>;
  /** Forgets what is cached of every remote TARGET: what was read of them is damaged. */
  distrust(): Promise<void>;
  close(): Promise<void>;
}

export function createContext(options: ContextOptions): Context {
  return new CommandContext(options);
}

class CommandContext implements Context {
  readonly command: string;
  readonly flags: GlobalFlags;
  readonly env: Environment;
  readonly terminal: Terminal;
  readonly signal: AbortSignal;
  readonly onExit: (callback: () => void) => void;
  readonly reportPath: string | undefined;
  readonly inputs: InputFile[];
  readonly colors: Colors;
  readonly width: number | undefined;
  readonly #opened: OpenedTarget[] = [];
  #engine: Promise<Engine> | undefined;
  #limits: Promise<LimitOverrides> | undefined;
  #cache: Promise<DiskCache | undefined> | undefined;
  #progress: Progress | undefined;
  readonly #doubts: Finding[] = [];

  constructor(options: ContextOptions) {
    const { command, flags, env, terminal, signal, onExit, reportPath, inputs } = options;
    this.command = command;
    this.flags = flags;
    this.env = env;
    this.terminal = terminal;
    this.signal = signal;
    this.onExit = onExit;
    this.reportPath = reportPath;
    this.inputs = [...inputs];
    const toTerminal = terminal.outIsTerminal && reportPath === undefined;
    this.colors = chooseColors({ flag: flags.color, isTerminal: toTerminal, env });
    this.width = toTerminal ? terminal.columns : undefined;
  }

  engine(): Promise<Engine> {
    this.#engine ??= this.#makeEngine();
    return this.#engine;
  }

  async #makeEngine(): Promise<Engine> {
    const { nodeEngine } = await import("../src/platform/node/engine.ts");
    const { engine: tier = "auto", concurrency } = this.flags;
    const workers = concurrency === undefined ? {} : { workers: concurrency };
    return nodeEngine({ tier, callingThread: callingThreadOf(this.command), ...workers });
  }

  async expectHashing(target: string): Promise<void> {
    const found = await stat(target).catch(() => undefined); // no path, or none that exists: opening will tell
    if (found?.isFile() === true) (await this.engine()).expect?.(found.size);
  }

  limits(): Promise<LimitOverrides> {
    this.#limits ??= readLimits(this.flags.limits);
    return this.#limits;
  }

  cache(): Promise<DiskCache | undefined> {
    this.#cache ??= this.#makeCache();
    return this.#cache;
  }

  async #makeCache(): Promise<DiskCache | undefined> {
    const [{ DiskCache }, { cacheFolder }, { cacheLimit }] = await Promise.all([
      import("../src/platform/node/disk-cache.ts"),
      import("../src/platform/node/cache-place.ts"),
      import("./cache-limit.ts"),
    ]);
    const maxBytes = cacheLimit(this.env);
    if (maxBytes === 0) return undefined;
    const onProblem = (message: string, kind: CacheProblem): void => {
      if (kind === "foreign") this.warn(`tare: warning: ${message}`);
      else this.note(`tare: note: ${message}; nothing more is kept`);
    };
    return new DiskCache({ folder: cacheFolder(this.env), maxBytes, onProblem });
  }

  async open(target: string): Promise<OpenedTarget> {
    const opened = await openForCommand(this, target);
    this.#opened.push(opened);
    this.inputs.push(...partFiles(opened));
    return opened;
  }

  progress(options: ProgressOptions): Progress {
    const { terminal } = this;
    const write = (text: string): void => terminal.writeErr(text);
    const device = { mode: this.#progressMode(), write, width: terminal.columns, now: () => performance.now() };
    this.#progress = startProgress(device, options);
    return this.#progress;
  }

  #progressMode(): ProgressMode {
    const { flags, terminal, env } = this;
    if (flags.progress === "json") return "json";
    const unwanted = flags.progress === "none" || flags["no-progress"] === true || flags.quiet === true;
    // Logs of a build server keep every redrawn line.
    return unwanted || !terminal.errIsTerminal || env["CI"] ? "none" : "bar";
  }

  note(text: string): void {
    if (this.flags.quiet !== true) this.warn(text);
  }

  warn(text: string): void {
    this.#progress?.end();
    this.terminal.writeErr(`${text}\n`);
  }

  doubt(finding: Finding): void {
    this.#doubts.push(finding);
    const { message, hint } = finding;
    this.warn(`warning: ${printable(message)}${hint === undefined ? "" : `; ${hint}`}`);
  }

  async show({ json, text }: Result): Promise<void> {
    this.#progress?.end();
    const layout = this.width === undefined ? "compact" : "pretty";
    const content = this.flags.json === true ? encodeJson(withDoubts(json(), this.#doubts), layout) : text();
    const pieces = typeof content === "string" ? [content] : content;
    if (this.reportPath === undefined) {
      for (const piece of withNewline(pieces)) await this.terminal.writeOut(piece);
      return;
    }
    const sink = await openOutputFile(this, this.reportPath);
    for (const piece of withNewline(pieces)) await sink.append(new TextEncoder().encode(piece));
    await sink.commit();
  }

  async distrust(): Promise<void> {
    for (const opened of this.#opened) await opened.distrust();
  }

  async close(): Promise<void> {
    this.#progress?.end();
    for (const opened of this.#opened) await opened.close();
    const cache = await this.#cache?.catch(() => undefined);
    await cache?.close();
    const engine = await this.#engine?.catch(() => undefined);
    await engine?.close();
  }
}

/** The files of a model on disk: what was named may be an index, a folder or the first of several. */
function partFiles({ container }: OpenedTarget): readonly InputFile[] {
  if (container.kind !== "model") return [];
  return container.parts.flatMap(({ source: { descriptor } }) =>
    descriptor?.kind === "file" ? [{ path: descriptor.path, kind: "plain" as const }] : [],
  );
}

/** The document with what was doubted on the way, among the warnings that it has or as such. */
function withDoubts(document: unknown, doubts: readonly Finding[]): unknown {
  if (doubts.length === 0 || typeof document !== "object" || document === null || Array.isArray(document))
    return document;
  const { warnings } = document as { readonly warnings?: unknown };
  return { ...document, warnings: [...(Array.isArray(warnings) ? warnings : []), ...doubts] };
}

function* withNewline(pieces: Iterable<string>): Generator<string> {
  let last: string | undefined;
  for (const piece of pieces) {
    if (last !== undefined) yield last;
    last = piece;
  }
  yield `${last ?? ""}\n`;
}

/** A conversion keeps the calling thread busy with reading and writing; most that hash only wait. */
function callingThreadOf(command: string): "free" | "helps" | "computes" {
  // SHA-256 of the healed file, which no other thread can take over.
  if (command === "correct repair") return "computes";
  return /^(verify$|quantize$|correct (gen|verify)$)/.test(command) ? "helps" : "free";
}
