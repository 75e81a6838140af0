import { dispatch } from "./dispatch.ts";
import { describeError, renderError } from "./errors.ts";
import { EXIT, type ExitCode, exitCodeOf } from "./exit-codes.ts";
import { Interruption } from "./interruption.ts";
import { chooseColors } from "./render/colors.ts";
import { encodeJson } from "./render/json.ts";
import { BrokenPipe, processTerminal, type Terminal } from "./terminal.ts";

const terminal = processTerminal(process.env);

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
  const isTold = wantsJson && (await printJson(error, to));
  // Somebody at a terminal who redirected standard output still wants to know.
  if (!isTold || (to.errIsTerminal && !to.outIsTerminal)) {
    const width = to.errIsTerminal ? to.columns : undefined;
    to.writeErr(renderError(error, colorsFor(argv, to.errIsTerminal), width));
  }
  const isBug = exitCodeOf(error) === EXIT.internal;
  const verbose = argv.includes("-v") || argv.includes("--verbose");
  if (isBug || verbose) to.writeErr(`${traceOf(error)}\n`);
  return exitCodeOf(error);
}

/** False where standard output takes no document: a full disk is told on standard error instead. */
function printJson(error: unknown, to: Terminal): Promise<boolean> {
  return to.writeOut(`${encodeJson(describeError(error), "compact")}\n`).then(
    () => true,
    () => false,
  );
}

/** The stack, with the causes behind it; fields of errors stay out, as they may hold headers or addresses. */
function traceOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const own = error.stack ?? String(error);
  return error.cause === undefined ? own : `${own}\ncaused by ${traceOf(error.cause)}`;
}

async function main(argv: readonly string[]): Promise<void> {
  const tell = (): void => void report(interruption.signal.reason, argv, terminal).catch(() => undefined);
  const interruption = new Interruption({ tell });
  const { signal, onExit } = interruption;
  // What is thrown where nobody waits for it ends the command like anything else.
  process.once("uncaughtException", (error) => {
    void report(error, argv, terminal).then(interruption.end.bind(interruption));
  });
  // Node ends with 0 where nothing is left to do, also while the command waits for something that cannot come any more.
  process.once("beforeExit", () => {
    const stuck = new Error("The command came to a standstill: it waits for something that never happens");
    void report(signal.aborted ? signal.reason : stuck, argv, terminal).then(interruption.end.bind(interruption));
  });
  const exitCode = await dispatch(argv, { env: process.env, terminal, signal, onExit }).catch((error: unknown) =>
    // What fails after Ctrl-C fails because of it, whatever it says.
    report(signal.aborted ? signal.reason : error, argv, terminal),
  );
  // Idle sockets and workers must not hold the process; everything written has been taken by now.
  await interruption.end(exitCode);
}

void main(process.argv.slice(2));
