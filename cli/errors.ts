import { type ErrorJson, isTareError, type Location, namedSystemError } from "../src/base/errors.ts";
import { printable } from "../src/base/text.ts";
import { isInterruption } from "./exit-codes.ts";
import type { Colors } from "./render/colors.ts";
import { wrap } from "./render/text-width.ts";

/** What `--json` prints in place of a result. */
export type CliErrorJson = Omit<ErrorJson, "name" | "transient">;

/** Anything that was thrown, in the one shape that scripts rely on. */
export function describeError(error: unknown): CliErrorJson {
  const known = isTareError(error) ? error : namedSystemError(error);
  if (known !== undefined) {
    const { type, code, message, at, hint } = known.toJSON();
    return { type, code, message, at, ...(hint === undefined ? {} : { hint }) };
  }
  if (isInterruption(error)) {
    return { type: "error", code: "usage/interrupted", message: "Interrupted", at: { source: "command line" } };
  }
  return {
    type: "error",
    code: "internal/bug",
    message: error instanceof Error ? `${error.name}: ${error.message}` : String(error),
    at: { source: "tare" },
    hint: "This is a bug in tare, not in your file: run the command again with -v and report what it prints",
  };
}

const HINT_INDENT = " ".repeat(8);

/** One line that says what, one that says where, one that says what to do; only the last is broken to the width. */
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

/** "model.gguf, byte 24, metadata_kv[3].key"; empty where the fault is in what was typed. */
export function renderLocation(at: Location): string {
  if (["command line", "tare", "system"].includes(at.source)) return "";
  const parts = [printable(at.source)];
  if (at.offset !== undefined) parts.push(`byte ${at.offset}`);
  if (at.path !== undefined) parts.push(printable(at.path));
  return parts.join(", ");
}
