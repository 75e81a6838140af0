import { IntegrityError, UsageError } from "../../base/errors.ts";
import { isoTime } from "../../base/figures.ts";
import { printable } from "../../base/text.ts";
import type { Source } from "../../bytes/source.ts";
import { findPathFault } from "../../formats/aerovault/paths.ts";
import { Vault1Archive } from "../../formats/aerovault1/vault.ts";
import { Vault2Archive } from "../../formats/aerovault2/archive.ts";
import type { Archive, Entry } from "../../model/archive.ts";
import { diffArchives } from "../diff.ts";
import type { AddInput, OpenedInput } from "./inputs.ts";

/** Refuses an archive that is not an older vault. */
export function checkUpgradable(archive: Archive, label: string): void {
  if (archive instanceof Vault1Archive || archive instanceof Vault2Archive) return;
  const message = `Cannot upgrade "${label}": it is a vault of version ${archive.version ?? "3"} already`;
  throw new UsageError(
    "usage/upgrade.current",
    message,
    { source: label },
    {
      hint: "To write every block again, use: tare vault compact",
    },
  );
}

/** Checks the password if opening did not: the names in a vault of version 1 are not encrypted. */
export async function provePassword(archive: Archive): Promise<void> {
  if (archive instanceof Vault1Archive) await archive.vault.proof.get();
}

/**
 * The entries of an older vault as inputs for a new one, with their times if the old one has them. Names that version 3
 * cannot store are refused before anything is written.
 */
export function upgradeInputs(archive: Archive, open: (source: Source) => Promise<OpenedInput>): AddInput[] {
  const label = archive.parts[0]?.label ?? archive.format;
  return archive.entries.map((entry): AddInput => {
    checkName(entry.path, label);
    const facts = { path: entry.path, label: `${label}::${entry.path}`, mtime: timeOf(entry) };
    if (entry.type === "directory") return { kind: "directory", ...facts };
    return { kind: "file", ...facts, size: entry.size, open: () => open(entry.source()) };
  });
}

function checkName(path: string, label: string): void {
  const fault = findPathFault(path);
  if (fault === undefined) return;
  const message = `Cannot store "${printable(path)}" in a vault of version 3: ${fault}`;
  const hint = "Extract the vault, rename the file, and add the folder to a new vault";
  throw new UsageError("usage/vault.path", message, { source: label, path }, { hint });
}

/** In the form of manifests: UTC, whole seconds. A time that this form cannot express is left out. */
function timeOf({ modified }: Entry): string | undefined {
  return modified === undefined ? undefined : isoTime(modified)?.replace(/\.\d{3}Z$/, "Z");
}

export interface UpgradeCheckOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
}

/**
 * Reads both vaults again and compares them, entry by entry, byte for byte. The new one may have entries for folders
 * that the old one only implied; nothing else may differ.
 */
export async function checkUpgraded(old: Archive, fresh: Archive, options: UpgradeCheckOptions): Promise<void> {
  const { added, removed, changed } = await diffArchives(old, fresh, options);
  const stray = added.filter((path) => fresh.entry(path).type !== "directory");
  const times = new Map(fresh.entries.map((entry) => [entry.path, timeOf(entry)]));
  const late = old.entries.filter((entry) => timeOf(entry) !== undefined && times.get(entry.path) !== timeOf(entry));
  const [wrong] = [...removed, ...stray, ...changed.map(({ name }) => name), ...late.map(({ path }) => path)];
  if (wrong === undefined) return;
  const message = `Cannot trust the new vault: "${printable(wrong)}" must be as it was in the old one, and is not`;
  const hint = "Nothing was written; the old vault is as it was";
  throw new IntegrityError("integrity/upgrade.vault", message, { source: fresh.parts[0]?.label ?? "vault" }, { hint });
}
