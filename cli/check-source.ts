import { IntegrityError } from "../src/base/errors.ts";
import type { Opened } from "../src/model/format.ts";
import type { Context } from "./context.ts";

/** Damage that the tensors and what is said about them have no part in. */
const HARMLESS: ReadonlySet<string> = new Set(["integrity/embd.footer"]);

export interface SourceCheck {
  /** What to do about damage: "warn" where somebody takes the file as it is. */
  readonly damage: "refuse" | "warn";
  /** How to go on all the same, for the error. */
  readonly hint: string;
}

/**
 * Refuses a damaged file whose tensors are read without being checked: what is made of it would look right. Only for
 * files on disk; elsewhere a second reading costs too much.
 */
export async function checkSource(context: Context, opened: Opened, { damage, hint }: SourceCheck): Promise<void> {
  const { container, format, reader } = opened;
  if (reader.checksums !== "whole file") return;
  if (!container.parts.every(({ source }) => source.descriptor !== undefined)) return;
  const engine = await context.engine();
  const { signal } = context;
  const limits = await context.limits();
  const { verify } = await format.verify();
  const findings = verify(container, { engine, limits, signal, level: "full", count: () => undefined });
  for await (const { severity, code, message, at } of findings) {
    if (severity !== "error" || !code.startsWith("integrity/")) continue;
    const isTold = container.warnings.some((warning) => warning.code === code);
    if (HARMLESS.has(code) || damage === "warn") {
      if (!isTold) context.warn(`tare: warning: ${message} [${code}]`);
    } else throw new IntegrityError(code as `integrity/${string}`, message, at, { hint });
  }
}
