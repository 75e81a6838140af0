import { printable } from "../../src/base/text.ts";
import type { Archive } from "../../src/model/archive.ts";
import { type ArchiveDiffReport, diffArchives, type EntryChange } from "../../src/operations/diff.ts";
import type { Context } from "../context.ts";
import { EXIT, type ExitCode } from "../exit-codes.ts";
import { formatInteger, formatSize, plural } from "../render/sizes.ts";
import { type Cell, renderTable } from "../render/table.ts";

/** Compares two archives and says what differs; exit 3 where that was asked for. */
export async function showArchiveDiff(
  [a, b]: readonly [Archive, Archive],
  exitCode: true | undefined,
  context: Context,
): Promise<ExitCode> {
  const total = a.entries.reduce((sum, entry) => sum + entry.size, 0);
  const progress = context.progress({ label: "comparing", total });
  const onProgress = (byteLength: number): void => progress.add(byteLength);
  const report = await diffArchives(a, b, { signal: context.signal, onProgress });
  progress.end();
  await context.show({ json: () => report, text: () => renderDiff(report, context) });
  return !report.equal && exitCode === true ? EXIT.findings : EXIT.success;
}

function renderDiff(report: ArchiveDiffReport, context: Context): string {
  const { colors, width } = context;
  const rows: Cell[][] = [
    ...report.removed.map((name): Cell[] => [{ text: "- removed", style: colors.red }, printable(name), ""]),
    ...report.added.map((name): Cell[] => [{ text: "+ added", style: colors.green }, printable(name), ""]),
    ...report.changed.map((change): Cell[] => {
      return [
        { text: `~ ${change.what.join(", ")}`, style: colors.yellow },
        printable(change.name),
        describeChange(change),
      ];
    }),
  ];
  const lines = rows.length === 0 ? [] : [renderTable([{}, { cut: "middle" }, { cut: "end" }], rows, { width }), ""];
  return [...lines, summarise(report, context)].join("\n");
}

function describeChange({ what, a, b }: EntryChange): string {
  if (what.includes("type")) return `${a.type} → ${b.type}`;
  return what.includes("size") ? `${formatSize(a.size)} → ${formatSize(b.size)}` : formatSize(a.size);
}

function summarise({ equal, added, removed, changed, unchanged }: ArchiveDiffReport, { colors }: Context): string {
  if (equal) return `${colors.green("equal")}: ${plural(unchanged, "entry", "entries")} the same`;
  const parts = [
    `${formatInteger(changed.length)} changed`,
    `${formatInteger(added.length)} added`,
    `${formatInteger(removed.length)} removed`,
    `${formatInteger(unchanged)} the same`,
  ];
  return `${colors.yellow("different")}: ${parts.join(", ")}`;
}
