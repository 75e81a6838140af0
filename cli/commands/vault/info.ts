import { printable } from "../../../src/base/text.ts";
import type { Archive } from "../../../src/model/archive.ts";
import { defineCommand } from "../../command.ts";
import type { Context } from "../../context.ts";
import { EXIT } from "../../exit-codes.ts";
import { formatShare, formatSizeBoth, plural } from "../../render/sizes.ts";
import { renderTable } from "../../render/table.ts";
import { openArchive } from "./open-vault.ts";

export const vaultInfoCommand = defineCommand({
  positionals: { names: ["VAULT"], min: 1, max: 1 },
  flags: {},
  details: [
    "Format, encryption, compression, chunking and parity, how many files and chunks there are, what they take and what is stored. Reads the manifest only.",
  ],
  examples: [{ command: "tare vault info models.aerovault --json", says: "for scripts" }],
  output: "report",
  async run(context, { positionals }) {
    const [target = ""] = positionals;
    const { container, label } = await openArchive(context, target);
    const counts = countEntries(container);
    const byteLength = container.parts.reduce((sum, part) => sum + part.byteLength, 0);
    const { format, version, facts, warnings } = container;
    await context.show({
      json: () => {
        const named = { facts: Object.fromEntries(facts), warnings };
        return { format, version: version ?? null, byteLength, ...counts, ...container.storage, ...named };
      },
      text: () => renderInfo(container, { label, byteLength, ...counts }, context),
    });
    return EXIT.success;
  },
});

interface Counts {
  readonly entryCount: number;
  readonly fileCount: number;
  readonly directoryCount: number;
}

function countEntries({ entries }: Archive): Counts {
  const fileCount = entries.filter(({ type }) => type === "file").length;
  return { entryCount: entries.length, fileCount, directoryCount: entries.length - fileCount };
}

function renderInfo(
  archive: Archive,
  { label, byteLength, fileCount, directoryCount }: Counts & { readonly label: string; readonly byteLength: number },
  { colors, width }: Context,
): string {
  const { storage, facts, warnings } = archive;
  const rows: string[][] = [
    ["size", formatSizeBoth(byteLength)],
    ["holds", `${plural(fileCount, "file")} in ${plural(directoryCount, "directory", "directories")}`],
  ];
  if (storage !== undefined) {
    const { logicalBytes, storedBytes, unusedBytes, chunkCount } = storage;
    const share = logicalBytes === 0 ? "" : `, ${formatShare((storedBytes - unusedBytes) / logicalBytes)} of it stored`;
    rows.push(["contents", `${formatSizeBoth(logicalBytes)}${share}`]);
    rows.push(["stored", `${formatSizeBoth(storedBytes)} in ${plural(chunkCount, "chunk")}`]);
    if (unusedBytes > 0) rows.push(["unused", `${formatSizeBoth(unusedBytes)}: tare vault compact gives it back`]);
  }
  for (const [name, value] of facts) if (!MEASURED.has(name)) rows.push([name, printable(value)]);
  for (const { message } of warnings) rows.push(["warning", printable(message)]);
  const title = `${colors.bold(printable(label))}  AeroVault ${archive.version ?? ""}`;
  const cells = rows.map(([name = "", value = ""]) => [{ text: `  ${name}`, style: colors.dim }, value]);
  return [title, "", renderTable([{}, {}], cells, { width })].join("\n");
}

/** Facts that stand above in better words. */
const MEASURED: ReadonlySet<string> = new Set(["files", "contents", "unused"]);
