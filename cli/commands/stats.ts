import { printable } from "../../src/base/text.ts";
import { requireModel } from "../../src/open.ts";
import { mapTensors } from "../../src/operations/reading/concurrency.ts";
import { type Histogram, statistics, type TensorStatistics } from "../../src/operations/stats.ts";
import { defineCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { EXIT } from "../exit-codes.ts";
import { sparkline } from "../render/bars.ts";
import { formatInteger, formatShare, formatValue, plural } from "../render/sizes.ts";
import { type Cell, type Column, renderTable } from "../render/table.ts";
import { selectTensors } from "../select-tensors.ts";

/** Reading one tensor goes on while another one is counted; more would only take memory. */
const TENSORS_AT_ONCE = 4;
const HISTOGRAM_INDENT = "  ";

export const statsCommand = defineCommand({
  positionals: { names: ["TARGET", "GLOB"], min: 1, max: 2 },
  flags: {
    hist: { kind: "integer", value: "N", min: 1, max: 4096, summary: "a histogram of N bins for each tensor" },
  },
  details: ["Over the finite values of each tensor; std is the population's. Exits 3 where a tensor holds NaN or Inf."],
  examples: [
    { command: "tare stats model.safetensors", says: "every tensor" },
    { command: 'tare stats model.safetensors "*norm*" --hist 24', says: "some, with a histogram" },
  ],
  output: "report",
  async run(context, { flags, positionals }) {
    const [target = "", ...globs] = positionals;
    const { container, label } = await context.open(target);
    const tensors = selectTensors(requireModel(container).tensors, globs, label);
    const total = tensors.reduce((sum, tensor) => sum + tensor.byteLength, 0);
    const progress = context.progress({ label: "reading values", total });
    const onProgress = (byteLength: number): void => progress.add(byteLength);
    const options = { bins: flags.hist, signal: context.signal, onProgress };
    const together = { concurrency: context.flags.concurrency ?? TENSORS_AT_ONCE, signal: context.signal };
    const rows = await mapTensors(tensors, together, (tensor) => statistics(tensor, options));
    progress.end();
    await context.show({ json: () => ({ tensors: rows }), text: () => renderStatistics(rows, context) });
    return rows.some((row) => row.nan > 0 || row.inf > 0) ? EXIT.findings : EXIT.success;
  },
});

function renderStatistics(rows: readonly TensorStatistics[], context: Context): string {
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
    row.elementCount === 0 || row.skipped !== undefined ? "–" : formatShare(row.zero / row.elementCount),
    printable(row.name),
  ]);
  const [title = "", ...table] = renderTable(columns, lines, { width, styleTitle: colors.dim }).split("\n");
  const withHistograms = table.flatMap((line, i) => [line, ...histogramLines(rows[i]?.histogram, context)]);
  return [title, ...withHistograms, ...remarks(rows, context)].join("\n");
}

/** Columns from the lowest value to the highest, below the numbers; several lines where there are many. */
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
