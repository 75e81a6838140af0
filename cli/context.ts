import type { LimitOverrides } from "../src/base/limits.ts";
import { printable } from "../src/base/text.ts";
import type { Finding } from "../src/model/finding.ts";
import type { DiskCache } from "../src/platform/node/cache/disk-cache.ts";
import type { InputFile } from "../src/platform/node/files/output-place.ts";
import type { OpenedTarget, OpenTargetOptions } from "../src/platform/node/targets.ts";
import type { Engine } from "../src/primitives/engine.ts";
import type { GlobalFlags } from "./flags/flags.ts";
import type { Colors } from "./render/colors.ts";
import type { Progress, ProgressOptions } from "./render/progress.ts";
import type { Terminal } from "./terminal/terminal.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

/** What a verb says about opening, besides the flags. */
export type OpenRule = Pick<OpenTargetOptions, "cutShort">;

export interface ContextOptions {
  readonly command: string;
  readonly flags: GlobalFlags;
  readonly env: Environment;
  readonly terminal: Terminal;
  readonly signal: AbortSignal;
  /** Runs the callback when the process ends, however it ends. */
  readonly onExit: (callback: () => void) => void;
  /** Gives the engine that is used instead of the host's. For tests, in which deriving a key again costs too much. */
  readonly adaptEngine?: ((engine: Engine) => Engine) | undefined;
  /** Where `show` writes instead of standard output: -o of a command whose result is a report. */
  readonly reportPath: string | undefined;
  /** Files on disk that arguments, flags and environment name and the command reads; no output may replace them. */
  readonly inputs: readonly InputFile[];
  /** How many of the arguments the command reads. */
  readonly targetCount?: number | undefined;
}

/** The two forms of one result; only the requested one is made. */
export interface Result {
  readonly json: () => unknown;
  /** Without a trailing newline. Long texts come in pieces, which are written one by one and need not be kept. */
  readonly text: () => string | Iterable<string>;
}

/** What a command works with: objects made from the global flags. */
export interface Context extends ContextOptions {
  /** Colours of standard output. */
  readonly colors: Colors;
  /** Cells of a line of standard output; undefined if it is not a terminal, so that nothing is cut. */
  readonly width: number | undefined;
  /** The engine, made on first use. */
  engine(): Promise<Engine>;
  /** Announces that a whole TARGET will be hashed: if it is a big local file, workers start while it is opened. */
  expectHashing(target: string): Promise<void>;
  /** The limits of --limits. */
  limits(): Promise<LimitOverrides>;
  /** The disk cache of remote files, made on first use; undefined if it is turned off. */
  cache(): Promise<DiskCache | undefined>;
  /** Adds a file that is read because a TARGET is in its company; no output may replace it. */
  noteBeside(path: string): void;
  /** Opens a TARGET; it is closed when the command ends. */
  open(target: string, options?: OpenRule): Promise<OpenedTarget>;
  /** Shows progress while a long job runs. */
  progress(options: ProgressOptions): Progress;
  /** A message on standard error; silent with -q. */
  note(text: string): void;
  /** A message that -q does not silence. */
  warn(text: string): void;
  /** A warning about an input: always shown, and part of the command's document. */
  doubt(finding: Finding): void;
  /** Shows the command's one result. */
  show(result: Result): Promise<void>;
  /** Closes the targets that were opened so far, for commands that look at several, one after the other. */
  release(): Promise<void>;
  /** The warnings about inputs since the last call; `show` then leaves them out. */
  takeDoubts(): readonly Finding[];
  /** Says what the command did, if that is all there is to show: silent with -q. A document or -o asks for it. */
  tell(result: Result): Promise<void>;
  /** Removes every remote TARGET from the cache: the bytes read from it are damaged. */
  distrust(): Promise<void>;
  close(): Promise<void>;
}

/** A doubt about an input, in one line, with the code that `tare explain` knows. */
export function doubtLine({ message, code, hint }: Finding): string {
  return `warning: ${printable(message)} [${code}]${hint === undefined ? "" : `; ${printable(hint)}`}`;
}
