import { IntegrityError } from "../../base/errors.ts";
import type { LimitOverrides } from "../../base/limits.ts";
import type { Finding } from "../../model/finding.ts";
import type { Opened } from "../../model/format.ts";
import type { Engine } from "../../primitives/engine.ts";

/** Damage that affects neither the tensors nor what is said about them. */
const HARMLESS: ReadonlySet<string> = new Set(["integrity/embd.footer"]);

/**
 * The damage that opening found in the files of these labels, or in any file, if reading a tensor would not find it
 * again.
 */
export function foundDamage(
  { container, reader }: Opened,
  labels: ReadonlySet<string> | undefined,
): Finding | undefined {
  if (reader.checksums !== "whole file") return undefined;
  const taken = container.parts.filter(({ label }) => labels === undefined || labels.has(label));
  const sources = new Set(taken.map(({ source }) => source.label));
  return container.warnings.find(
    ({ code, at }) => code.startsWith("integrity/") && !HARMLESS.has(code) && sources.has(at.source),
  );
}

export interface SourceCheck {
  readonly engine: Engine;
  readonly limits: LimitOverrides;
  readonly signal?: AbortSignal | undefined;
  /** What to do about damage: "warn" if the user accepts the file as it is. */
  readonly damage: "refuse" | "warn";
  /** How to continue anyway, for the error. */
  readonly hint: string;
  /** Gets damage that is accepted or harmless, and that opening has not reported. */
  readonly onWarning: (finding: Finding) => void;
}

/**
 * Refuses a damaged file whose tensors are read without being checked: the output would look right. Only for files on
 * disk; elsewhere a second read costs too much.
 */
export async function checkSource(opened: Opened, check: SourceCheck): Promise<void> {
  const { container, format, reader } = opened;
  if (reader.checksums !== "whole file") return;
  if (!container.parts.every(({ source }) => source.descriptor !== undefined)) return;
  const { engine, limits, signal, damage, hint, onWarning } = check;
  const { verify } = await format.verify();
  const findings = verify(container, { engine, limits, signal, level: "full", count: () => undefined });
  for await (const finding of findings) {
    const { severity, code, message, at } = finding;
    if (severity !== "error" || !code.startsWith("integrity/")) continue;
    const isTold = container.warnings.some((warning) => warning.code === code);
    if (HARMLESS.has(code) || damage === "warn") {
      if (!isTold) onWarning(finding);
    } else throw new IntegrityError(code as `integrity/${string}`, message, at, { hint });
  }
}
