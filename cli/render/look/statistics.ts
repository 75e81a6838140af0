import { formatInteger, formatShare, formatValue, plural } from "../../../src/base/figures.ts";
import { printable } from "../../../src/base/text.ts";
import type { Histogram, TensorStatistics } from "../../../src/operations/stats.ts";
import type { Context } from "../../context.ts";
import { sparkline } from "../charts.ts";
import { type Cell, type Column, tableRows } from "../table.ts";

const HISTOGRAM_INDENT = "  ";

/** One line a tensor, its histogram below it, and what is remarkable. */
export function renderStatistics(rows: readonly TensorStatistics[], context: Context): string {
  const { colors, width } = context;
  const right = { align: "right" } as const;
  // Two columns of zeros would take the room that names need.
  const alarming = rows.some((row) => row.nan > 0 || row.inf > 0);
  const columns: Column[] = [
    { title: "min", ...right },
    { title: "max", ...right },
    { title: "mean", ...right },
    { title: "std", ...right },
    ...(alarming
      ? [
          { title: "NaN", ...right },
          { title: "Inf", ...right },
        ]
      : []),
    { title: "zero", ...right },
    { title: "name", cut: "middle" },
  ];
  const alarm = (count: number): Cell => (count > 0 ? { text: formatInteger(count), style: colors.red } : "0");
  const lines = rows.map((row): Cell[] => [
    ...[row.min, row.max, row.mean, row.std].map(formatValue),
    ...(alarming ? [alarm(row.nan), alarm(row.inf)] : []),
    row.elementCount === 0 || row.skipped !== undefined ? "–" : formatShare(row.zero, row.elementCount),
    printable(row.name),
  ]);
  const [title = "", ...table] = tableRows(columns, lines, { width, styleTitle: colors.dim });
  const withHistograms = table.flatMap((line, i) => [line, ...histogramLines(rows[i]?.histogram, context)]);
  return [title, ...withHistograms, ...remarks(rows, context)].join("\n");
}

/** Columns from the lowest value to the highest, below the numbers; several lines if there are many. */
function histogramLines(histogram: Histogram | undefined, { colors, width }: Context): string[] {
  if (histogram === undefined) return [];
  const columns = [...sparkline(histogram.counts)];
  const perLine = (width ?? Number.POSITIVE_INFINITY) - HISTOGRAM_INDENT.length;
  const lines: string[] = [];
  for (let i = 0; i < columns.length; i += perLine) lines.push(columns.slice(i, i + perLine).join(""));
  return lines.map((line) => HISTOGRAM_INDENT + colors.cyan(line));
}

function remarks(rows: readonly TensorStatistics[], { colors }: Context): string[] {
  const bad = rows.filter((row) => row.nan > 0 || row.inf > 0).length;
  const lines = ["", bad > 0 ? colors.red(`${plural(bad, "tensor")} with NaN or Inf`) : colors.dim("no NaN, no Inf")];
  const skipped = [...new Set(rows.map((row) => row.skipped).filter((reason) => reason !== undefined))];
  return skipped.length === 0 ? lines : [...lines, "", ...skipped.map((reason) => colors.dim(reason))];
}
