import { type ErrorJson, isTareError, type Location, namedSystemError } from "../src/base/errors.ts";
import { hideSecrets, printable } from "../src/base/text.ts";
import { findCommand } from "./commands/registry.ts";
import type { ContextOptions } from "./context.ts";
import { EXIT, type ExitCode, exitCodeOf, isInterruption } from "./exit-codes.ts";
import { flagsFor } from "./flags/option-names.ts";
import { type Colors, chooseColors } from "./render/colors.ts";
import { encodeJson } from "./render/json.ts";
import { wrap } from "./render/text-width.ts";
import { BrokenPipe, type Terminal } from "./terminal/terminal.ts";

/** What `--json` prints in place of a result. */
export type CliErrorJson = Omit<ErrorJson, "name" | "transient">;

/** Any thrown value, in the one shape that scripts rely on. */
export function describeError(error: unknown): CliErrorJson {
  const known = isTareError(error) ? error : namedSystemError(error);
  if (known !== undefined) {
    const { type, code, message, at, hint } = known.toJSON();
    return { type, code, message: flagsFor(message), at, ...(hint === undefined ? {} : { hint: flagsFor(hint) }) };
  }
  if (isInterruption(error)) {
    return { type: "error", code: "usage/interrupted", message: "Interrupted", at: { source: "command line" } };
  }
  return {
    type: "error",
    code: "internal/bug",
    message: hideSecrets(error instanceof Error ? `${error.name}: ${error.message}` : String(error)),
    at: { source: "tare" },
    hint: "This is a bug in tare, not in your file: run the command again with -v and report what it prints",
  };
}

const HINT_INDENT = " ".repeat(8);

/** One line for what is wrong, one for where, one for what to do; only the last is wrapped to the width. */
export function renderError(error: unknown, colors: Colors, width = Number.POSITIVE_INFINITY): string {
  const { code, message, at, hint } = describeError(error);
  const lines = [`${colors.bold(colors.red("tare:"))} ${printable(message)} ${colors.dim(`[${code}]`)}`];
  const where = renderLocation(at);
  if (where !== "") lines.push(`  ${colors.dim("at")}    ${where}`);
  if (hint !== undefined) {
    const [first, ...others] = hint.split("\n").flatMap((line) => wrap(printable(line), width - HINT_INDENT.length));
    lines.push(`  ${colors.dim("hint")}  ${first}`, ...others.map((line) => HINT_INDENT + line));
  }
  return `${lines.join("\n")}\n`;
}

/** "model.gguf, byte 24, metadata_kv[3].key"; empty if the fault is in what was typed. */
export function renderLocation(at: Location): string {
  if (["command line", "options", "tare", "system"].includes(at.source)) return "";
  // The library names the function that was called wrongly.
  if (at.offset === undefined && findCommand(at.source.replace(".", " ")) !== undefined) return "";
  const parts = [printable(at.source)];
  if (at.offset !== undefined) parts.push(`byte ${at.offset}`);
  if (at.path !== undefined) parts.push(printable(at.path));
  return parts.join(", ");
}

/** What reporting an error needs. */
type Talk = Pick<ContextOptions, "env" | "terminal">;

/** Colours before flags are parsed, or if parsing fails. */
function colorsFor(argv: readonly string[], { env, terminal }: Talk): Colors {
  const at = argv.indexOf("--color");
  const text = at >= 0 ? argv[at + 1] : argv.find((a) => a.startsWith("--color="))?.slice("--color=".length);
  const flag = text === "always" || text === "never" ? text : undefined;
  return chooseColors({ flag, isTerminal: terminal.errIsTerminal, env });
}

/** Prints the error, as text or as the one JSON document, and returns the exit code. */
export async function report(error: unknown, argv: readonly string[], talk: Talk): Promise<ExitCode> {
  const to = talk.terminal;
  if (error instanceof BrokenPipe) return EXIT.success;
  const end = argv.indexOf("--");
  const wantsJson = argv.slice(0, end < 0 ? undefined : end).includes("--json");
  const isTold = wantsJson && (await printJson(error, to));
  // A user at a terminal who redirected standard output still wants to see the error.
  if (!isTold || (to.errIsTerminal && !to.outIsTerminal)) {
    const width = to.errIsTerminal ? to.columns : undefined;
    to.writeErr(renderError(error, colorsFor(argv, talk), width));
  }
  const isBug = exitCodeOf(error) === EXIT.internal;
  const verbose = argv.includes("-v") || argv.includes("--verbose");
  if (isBug || verbose) to.writeErr(`${traceOf(error)}\n`);
  return exitCodeOf(error);
}

/** False if standard output cannot take the document: a full disk is then reported on standard error. */
function printJson(error: unknown, to: Terminal): Promise<boolean> {
  return to.writeOut(`${encodeJson(describeError(error), "compact")}\n`).then(
    () => true,
    () => false,
  );
}

/**
 * The stack, followed by its causes. Leaves out the fields of errors, which may hold headers or addresses. The texts of
 * causes are those of the system, which repeats what was typed: secrets are hidden in them as in our own.
 */
export function traceOf(error: unknown): string {
  return hideSecrets(stackOf(error));
}

function stackOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const own = error.stack ?? String(error);
  return error.cause === undefined ? own : `${own}\ncaused by ${stackOf(error.cause)}`;
}
