import { FormatError, IntegrityError, UsageError } from "../base/errors.ts";
import type { Opened, UpgradeContext } from "../model/format.ts";
import { verify } from "./verify.ts";

export interface UpgradeOptions extends UpgradeContext {
  readonly onProgress?: ((byteLength: number) => void) | undefined;
}

/**
 * The same model in the newest layout of its format, ready to be written. The old file is checked first, including its
 * checksum, so that damage is not carried into a new file.
 */
export async function upgrade(opened: Opened, options: UpgradeOptions): Promise<Opened> {
  const { container, format } = opened;
  const { upgrade: newest } = (await format.write?.()) ?? {};
  if (newest === undefined) {
    const message = `Cannot upgrade ${format.name}: only old APR files and vaults have a successor`;
    const hint = "To write APR from it, use: tare convert IN OUT.apr";
    throw new UsageError("usage/upgrade.format", message, { source: container.parts[0]?.label ?? format.id }, { hint });
  }
  await newest.check(container, options);
  await checkSound(opened, options);
  return { ...opened, container: await newest.apply(container, options) };
}

/** Throws the first error that verify finds. */
async function checkSound(opened: Opened, options: UpgradeOptions): Promise<void> {
  const { engine, limits, signal, onProgress } = options;
  const { findings } = await verify(opened, { level: "full", engine, limits, signal, onProgress });
  const fault = findings.find(({ severity }) => severity === "error");
  if (fault === undefined) return;
  const message = `Cannot upgrade: ${fault.message}`;
  const extra = { hint: fault.hint ?? "See all of it with: tare verify" };
  if (fault.code.startsWith("integrity/"))
    throw new IntegrityError(fault.code as `integrity/${string}`, message, fault.at, extra);
  throw new FormatError(fault.code as `format/${string}`, message, fault.at, extra);
}
