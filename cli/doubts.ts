import type { Container } from "../src/model/archive.ts";
import type { Context } from "./context.ts";

/** Findings of opening by which values may be wrong ones. */
const DOUBTS = /^integrity\/|^format\/embd\.orientation$/;

/** Tells what opening has found, for commands that use the values and show no findings otherwise. */
export function warnOfDoubts(context: Context, { warnings }: Container): void {
  for (const { code, message } of warnings) {
    if (DOUBTS.test(code)) context.warn(`tare: warning: ${message} [${code}]`);
  }
}
