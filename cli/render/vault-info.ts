import type { VaultInfoResult } from "../../src/api/vault/results.ts";
import { formatShare, formatSizeBoth, plural } from "../../src/base/figures.ts";
import { printable } from "../../src/base/text.ts";
import type { Archive } from "../../src/model/archive.ts";
import type { Context } from "../context.ts";
import { renderTable } from "./table.ts";

/** What is shown of a vault besides what it is itself. */
export interface ShownVault extends Omit<VaultInfoResult, "facts"> {
  readonly label: string;
  readonly facts: Archive["facts"];
}

/** `vault info` for people. */
export function renderVaultInfo(
  archive: Archive,
  { label, byteLength, facts, fileCount, directoryCount }: ShownVault,
  { colors, width }: Context,
): string {
  const { storage, warnings } = archive;
  const rows: string[][] = [
    ["size", formatSizeBoth(byteLength)],
    ["holds", `${plural(fileCount, "file")} in ${plural(directoryCount, "directory", "directories")}`],
  ];
  if (storage !== undefined) {
    const { logicalBytes, storedBytes, unusedBytes, gapBytes, chunkCount } = storage;
    const freeBytes = unusedBytes + gapBytes;
    const share = logicalBytes === 0 ? "" : `, ${formatShare(storedBytes - unusedBytes, logicalBytes)} of it stored`;
    rows.push(["contents", `${formatSizeBoth(logicalBytes)}${share}`]);
    rows.push(["stored", `${formatSizeBoth(storedBytes)} in ${plural(chunkCount, "chunk")}`]);
    if (freeBytes > 0) rows.push(["unused", `${formatSizeBoth(freeBytes)}: tare vault compact gives it back`]);
  }
  for (const [name, value] of facts) if (!MEASURED.has(name)) rows.push([name, printable(value)]);
  for (const { message } of warnings) rows.push(["warning", printable(message)]);
  const title = `${colors.bold(printable(label))}  AeroVault ${archive.version ?? ""}`;
  const cells = rows.map(([name = "", value = ""]) => [{ text: `  ${name}`, style: colors.dim }, value]);
  return [title, "", renderTable([{}, {}], cells, { width })].join("\n");
}

/** Facts that are shown above in better words. */
const MEASURED: ReadonlySet<string> = new Set(["files", "contents", "unused"]);
