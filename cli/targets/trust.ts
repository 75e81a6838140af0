import type { Container } from "../../src/model/archive.ts";
import type { Finding } from "../../src/model/finding.ts";
import type { Opened } from "../../src/model/format.ts";
import { checkSource as checkOpened, type SourceCheck } from "../../src/operations/convert/source-check.ts";
import { doubtsOf } from "../../src/operations/reading/trust.ts";
import type { Context } from "../context.ts";

export { takenTensors, unverifiedNotes } from "../../src/operations/reading/trust.ts";

/** What to do about damage, and how to continue anyway. */
type DamageRule = Pick<SourceCheck, "damage" | "hint">;

/** Refuses a damaged file whose tensors are read without being checked, by the global flags. */
export async function checkSource(context: Context, opened: Opened, rule: DamageRule): Promise<void> {
  // Most formats need no check, and then no engine.
  if (opened.reader.checksums !== "whole file") return;
  const [engine, limits] = await Promise.all([context.engine(), context.limits()]);
  const onWarning = ({ message, code }: Finding): void => context.warn(`tare: warning: ${message} [${code}]`);
  await checkOpened(opened, { ...rule, engine, limits, signal: context.signal, onWarning });
}

/** Reports what opening found, for commands that use the values and otherwise show no findings. */
export function warnOfDoubts(context: Context, container: Container): void {
  for (const doubt of doubtsOf(container)) context.warn(`tare: warning: ${doubt}`);
}
