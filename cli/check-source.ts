import { IntegrityError } from "../src/base/errors.ts";
import type { Context } from "./context.ts";
import type { ConversionJob } from "./conversion.ts";

/** Damage that the tensors and what is said about them have no part in. */
const HARMLESS: ReadonlySet<string> = new Set(["integrity/embd.footer"]);

/**
 * Refuses a damaged file whose tensors are read without being checked: what is made of it would look whole. Only for
 * files on disk that are converted as a whole; elsewhere a second reading costs too much, or only some tensors count.
 */
export async function checkSource(context: Context, { opened, options }: ConversionJob): Promise<void> {
  const { container, format } = opened;
  if (format.checksums !== "whole file" || (options.include ?? options.exclude) !== undefined) return;
  if (!container.parts.every(({ source }) => source.descriptor !== undefined)) return;
  const engine = await context.engine();
  const { signal } = context;
  const limits = await context.limits();
  const findings = format.verify(container, { engine, limits, signal, level: "full", count: () => undefined });
  for await (const { severity, code, message, at } of findings) {
    if (severity !== "error" || !code.startsWith("integrity/")) continue;
    const isTold = container.warnings.some((warning) => warning.code === code);
    if (HARMLESS.has(code) || options.allowLossy !== undefined) {
      if (!isTold) context.warn(`tare: warning: ${message} [${code}]`);
    } else {
      const hint = "Get the file again; --allow-lossy takes it as it is";
      throw new IntegrityError(code as `integrity/${string}`, message, at, { hint });
    }
  }
}
