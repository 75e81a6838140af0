import { stat } from "node:fs/promises";
import type { LimitOverrides } from "../src/base/limits.ts";
import type { Finding } from "../src/model/finding.ts";
import type { CacheProblem, DiskCache } from "../src/platform/node/cache/disk-cache.ts";
import type { InputFile } from "../src/platform/node/files/output-place.ts";
import type { OpenedTarget } from "../src/platform/node/targets.ts";
import type { Engine } from "../src/primitives/engine.ts";
import {
  type Context,
  type ContextOptions,
  doubtLine,
  type Environment,
  type OpenRule,
  type Result,
} from "./context.ts";
import { readLimits } from "./flags/files.ts";
import type { GlobalFlags } from "./flags/flags.ts";
import { flagsFor } from "./flags/option-names.ts";
import { cacheLimit } from "./flags/quantities.ts";
import { type Colors, chooseColors } from "./render/colors.ts";
import { encodeJson } from "./render/json.ts";
import { type Progress, type ProgressMode, type ProgressOptions, startProgress } from "./render/progress.ts";
import { openForCommand } from "./targets/inputs.ts";
import { openOutputFile } from "./targets/outputs.ts";
import type { Terminal } from "./terminal/terminal.ts";

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
  readonly adaptEngine: ContextOptions["adaptEngine"];
  readonly reportPath: string | undefined;
  readonly targetCount: number | undefined;
  readonly colors: Colors;
  readonly width: number | undefined;
  readonly #opened: OpenedTarget[] = [];
  readonly #named: readonly InputFile[];
  /** Files that opening and reading the targets opened too: parts of models, vocabularies, signatures. */
  readonly #beside = new Set<string>();
  #engine: Promise<Engine> | undefined;
  #limits: Promise<LimitOverrides> | undefined;
  #cache: Promise<DiskCache | undefined> | undefined;
  #progress: Progress | undefined;
  readonly #doubts: Finding[] = [];

  constructor(options: ContextOptions) {
    const { command, flags, env, terminal, signal, onExit, adaptEngine, reportPath, inputs } = options;
    this.command = command;
    this.flags = flags;
    this.env = env;
    this.terminal = terminal;
    this.signal = signal;
    this.onExit = onExit;
    this.adaptEngine = adaptEngine;
    this.reportPath = reportPath;
    this.#named = inputs;
    this.targetCount = options.targetCount;
    const toTerminal = terminal.outIsTerminal && reportPath === undefined;
    this.colors = chooseColors({ flag: flags.color, isTerminal: toTerminal, env });
    this.width = toTerminal ? terminal.columns : undefined;
  }

  engine(): Promise<Engine> {
    this.#engine ??= this.#makeEngine();
    return this.#engine;
  }

  async #makeEngine(): Promise<Engine> {
    const { nodeEngine } = await import("../src/platform/node/engine/engine.ts");
    const { engine: tier = "auto", concurrency } = this.flags;
    const workers = concurrency === undefined ? {} : { workers: concurrency };
    const engine = await nodeEngine({ tier, callingThread: callingThreadOf(this.command), ...workers });
    return this.adaptEngine?.(engine) ?? engine;
  }

  async expectHashing(target: string): Promise<void> {
    const found = await stat(target).catch(() => undefined); // no path, or none that exists: opening reports it
    if (found?.isFile() === true) (await this.engine()).expect?.(found.size);
  }

  limits(): Promise<LimitOverrides> {
    this.#limits ??= readLimits(this.flags.limits, this.signal);
    return this.#limits;
  }

  cache(): Promise<DiskCache | undefined> {
    this.#cache ??= this.#makeCache();
    return this.#cache;
  }

  async #makeCache(): Promise<DiskCache | undefined> {
    const [{ DiskCache }, { cacheFolder }] = await Promise.all([
      import("../src/platform/node/cache/disk-cache.ts"),
      import("../src/platform/node/cache/folder.ts"),
    ]);
    const maxBytes = cacheLimit(this.env);
    if (maxBytes === 0) return undefined;
    const onProblem = (message: string, kind: CacheProblem): void => {
      if (kind === "foreign") this.warn(`tare: warning: ${message}`);
      else this.note(`tare: note: ${message}; nothing more is kept`);
    };
    return new DiskCache({ folder: cacheFolder(this.env), maxBytes, onProblem });
  }

  async open(target: string, options: OpenRule = {}): Promise<OpenedTarget> {
    const opened = await openForCommand(this, target, options);
    this.#opened.push(opened);
    return opened;
  }

  get inputs(): readonly InputFile[] {
    const parts = this.#opened.flatMap(partFiles);
    const known = new Set(parts.map(({ path }) => path));
    const beside = [...this.#beside].filter((path) => !known.has(path));
    return [...this.#named, ...parts, ...beside.map((path) => ({ path, kind: "kept" as const }))];
  }

  noteBeside(path: string): void {
    this.#beside.add(path);
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
    this.terminal.writeErr(`${flagsFor(text)}\n`);
  }

  doubt(finding: Finding): void {
    this.#doubts.push(finding);
    this.warn(doubtLine(finding));
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

  async release(): Promise<void> {
    for (const opened of this.#opened) await opened.close();
  }

  takeDoubts(): readonly Finding[] {
    return this.#doubts.splice(0);
  }

  async tell(result: Result): Promise<void> {
    const { quiet, json } = this.flags;
    if (quiet !== true || json === true || this.reportPath !== undefined) await this.show(result);
    else this.#progress?.end();
  }

  async distrust(): Promise<void> {
    for (const opened of this.#opened) await opened.distrust();
  }

  async close(): Promise<void> {
    this.#progress?.end();
    await this.release();
    const cache = await this.#cache?.catch(() => undefined);
    await cache?.close();
    const engine = await this.#engine?.catch(() => undefined);
    await engine?.close();
  }
}

/** The files of a model on disk: the user may have named an index, a folder or the first of several files. */
function partFiles({ container }: OpenedTarget): readonly InputFile[] {
  if (container.kind !== "model") return [];
  return container.parts.flatMap(({ source: { descriptor } }) =>
    descriptor?.kind === "file" ? [{ path: descriptor.path, kind: "plain" as const }] : [],
  );
}

/** The document, with the doubts added to its warnings. */
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

/** A conversion keeps the calling thread busy with reading and writing; most commands that hash only wait. */
function callingThreadOf(command: string): "free" | "helps" | "computes" {
  // Computes SHA-256 of the healed file, which no other thread can do.
  if (command === "correct repair") return "computes";
  return /^(verify$|quantize$|correct (gen|verify)$)/.test(command) ? "helps" : "free";
}
