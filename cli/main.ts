import { dispatch } from "./dispatch.ts";
import { describeError, renderError } from "./errors.ts";
import { EXIT, type ExitCode, exitCodeOf } from "./exit-codes.ts";
import { chooseColors } from "./render/colors.ts";
import { encodeJson } from "./render/json.ts";
import { BrokenPipe, processTerminal, type Terminal } from "./terminal.ts";

/** How long an interrupted command may take to put things away before the process ends anyway. */
const GRACE_MS = 2000;
/** 128 + SIGTERM, as shells count. */
const TERMINATED = 143;

const terminal = processTerminal(process.env);
const interruption = new AbortController();
/** Run when the process ends, however it does: unfinished files are removed. */
const exitCallbacks = new Set<() => void>();

/** Colours before, or without, successfully parsed flags. */
function colorsFor(argv: readonly string[], isTerminal: boolean): ReturnType<typeof chooseColors> {
  const at = argv.indexOf("--color");
  const text = at >= 0 ? argv[at + 1] : argv.find((a) => a.startsWith("--color="))?.slice("--color=".length);
  const flag = text === "always" || text === "never" ? text : undefined;
  return chooseColors({ flag, isTerminal, env: process.env });
}

/** Prints what went wrong, as text or as the one JSON document, and gives the exit code. */
async function report(error: unknown, argv: readonly string[], to: Terminal): Promise<ExitCode> {
  if (error instanceof BrokenPipe) return EXIT.success;
  const end = argv.indexOf("--");
  const wantsJson = argv.slice(0, end < 0 ? undefined : end).includes("--json");
  if (wantsJson) await to.writeOut(`${encodeJson(describeError(error), "compact")}\n`);
  // Somebody at a terminal who redirected standard output still wants to know.
  if (!wantsJson || (to.errIsTerminal && !to.outIsTerminal)) {
    const width = to.errIsTerminal ? to.columns : undefined;
    to.writeErr(renderError(error, colorsFor(argv, to.errIsTerminal), width));
  }
  const isBug = exitCodeOf(error) === EXIT.internal;
  const verbose = argv.includes("-v") || argv.includes("--verbose");
  if (isBug || verbose) to.writeErr(`${traceOf(error)}\n`);
  return exitCodeOf(error);
}

/** The stack, with the causes behind it; fields of errors stay out, as they may hold headers or addresses. */
function traceOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const own = error.stack ?? String(error);
  return error.cause === undefined ? own : `${own}\ncaused by ${traceOf(error.cause)}`;
}

/** Lets the command unwind, and ends the process itself where that takes too long or a second signal comes. */
function interrupt(exitCode: number): void {
  if (interruption.signal.aborted) process.exit(exitCode);
  process.exitCode = exitCode;
  interruption.abort();
  setTimeout(() => process.exit(exitCode), GRACE_MS).unref();
}

async function main(argv: readonly string[]): Promise<void> {
  process.on("SIGINT", () => interrupt(EXIT.interrupted));
  process.on("SIGTERM", () => interrupt(TERMINATED));
  process.on("exit", () => {
    for (const callback of exitCallbacks) callback();
  });
  let exitCode: number;
  try {
    exitCode = await dispatch(argv, {
      env: process.env,
      terminal,
      signal: interruption.signal,
      onExit: (callback) => exitCallbacks.add(callback),
    });
    // A server ends well when it is told to; the exit code still says by what.
    if (interruption.signal.aborted) exitCode = Number(process.exitCode);
  } catch (thrown) {
    // What fails after Ctrl-C fails because of it, whatever it says.
    const error = interruption.signal.aborted ? interruption.signal.reason : thrown;
    exitCode = await report(error, argv, terminal).catch(() => EXIT.internal);
    if (interruption.signal.aborted) exitCode = Number(process.exitCode);
  }
  // Idle sockets and workers must not hold the process; everything written has been taken by now.
  process.exit(exitCode);
}

void main(process.argv.slice(2));
