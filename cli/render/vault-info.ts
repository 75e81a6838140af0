import type { VaultInfoResult } from "../../src/api/vault/results.ts";
import { formatShare, formatSizeBoth, plural } from "../../src/base/figures.ts";
import { printable } from "../../src/base/text.ts";
import type { Context } from "../context.ts";
import { renderTable } from "./table.ts";

/** `vault info` for people. */
export function renderVaultInfo(label: string, info: VaultInfoResult, { colors, width }: Context): string {
  const { version, byteLength, facts, fileCount, directoryCount, warnings } = info;
  const rows: string[][] = [
    ["size", formatSizeBoth(byteLength)],
    ["holds", `${plural(fileCount, "file")} in ${plural(directoryCount, "directory", "directories")}`],
  ];
  const { logicalBytes, storedBytes, unusedBytes, gapBytes, chunkCount } = info;
  if (
    logicalBytes !== undefined &&
    storedBytes !== undefined &&
    unusedBytes !== undefined &&
    gapBytes !== undefined &&
    chunkCount !== undefined
  ) {
    const freeBytes = unusedBytes + gapBytes;
    const share = logicalBytes === 0 ? "" : `, ${formatShare(storedBytes - unusedBytes, logicalBytes)} of it stored`;
    rows.push(["contents", `${formatSizeBoth(logicalBytes)}${share}`]);
    rows.push(["stored", `${formatSizeBoth(storedBytes)} in ${plural(chunkCount, "chunk")}`]);
    if (freeBytes > 0) rows.push(["unused", `${formatSizeBoth(freeBytes)}: tare vault compact gives it back`]);
  }
  for (const [name, value] of Object.entries(facts)) if (!MEASURED.has(name)) rows.push([name, printable(value)]);
  for (const { message } of warnings) rows.push(["warning", printable(message)]);
  const title = `${colors.bold(printable(label))}  AeroVault ${version ?? ""}`;
  const cells = rows.map(([name = "", value = ""]) => [{ text: `  ${name}`, style: colors.dim }, value]);
  return [title, "", renderTable([{}, {}], cells, { width })].join("\n");
}

/** Facts that are shown above in better words. */
const MEASURED: ReadonlySet<string> = new Set(["files", "contents", "unused"]);
