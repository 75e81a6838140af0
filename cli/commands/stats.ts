import { printable } from "../../src/base/text.ts";
import { requireModel } from "../../src/open.ts";
import { statistics, type TensorStatistics } from "../../src/operations/stats.ts";
import { defineCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { EXIT } from "../exit-codes.ts";
import { sparkline } from "../render/bars.ts";
import { formatInteger, formatShare, formatValue, plural } from "../render/sizes.ts";
import { type Cell, type Column, renderTable } from "../render/table.ts";
import { selectTensors } from "../select-tensors.ts";

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
    const rows: TensorStatistics[] = [];
    for (const tensor of tensors) {
      const onProgress = (byteLength: number): void => progress.add(byteLength);
      rows.push(await statistics(tensor, { bins: flags.hist, signal: context.signal, onProgress }));
    }
    progress.end();
    await context.show({ json: () => ({ tensors: rows }), text: () => renderStatistics(rows, context) });
    return rows.some((row) => row.nan > 0 || row.inf > 0) ? EXIT.findings : EXIT.success;
  },
});

function renderStatistics(rows: readonly TensorStatistics[], context: Context): string {
  const { colors, width } = context;
  const right = { align: "right" } as const;
  const withHistogram = rows.some((row) => row.histogram !== undefined);
  const columns: Column[] = [
    { title: "min", ...right },
    { title: "max", ...right },
    { title: "mean", ...right },
    { title: "std", ...right },
    { title: "NaN", ...right },
    { title: "Inf", ...right },
    { title: "zero", ...right },
    ...(withHistogram ? [{ title: "values" }] : []),
    { title: "name", cut: "middle" },
  ];
  const alarm = (count: number): Cell => (count > 0 ? { text: formatInteger(count), style: colors.red } : "0");
  const lines = rows.map((row): Cell[] => [
    ...[row.min, row.max, row.mean, row.std].map(formatValue),
    alarm(row.nan),
    alarm(row.inf),
    row.elementCount === 0 || row.skipped !== undefined ? "–" : formatShare(row.zero / row.elementCount),
    ...(withHistogram ? [sparkline(row.histogram?.counts ?? [])] : []),
    printable(row.name),
  ]);
  const table = renderTable(columns, lines, { width, styleTitle: colors.dim });
  return [table, ...remarks(rows, context)].join("\n");
}

function remarks(rows: readonly TensorStatistics[], { colors }: Context): string[] {
  const lines: string[] = [];
  const bad = rows.filter((row) => row.nan > 0 || row.inf > 0).length;
  if (bad > 0) lines.push("", colors.red(`${plural(bad, "tensor")} with NaN or Inf`));
  const skipped = [...new Set(rows.map((row) => row.skipped).filter((reason) => reason !== undefined))];
  return skipped.length === 0 ? lines : [...lines, "", ...skipped.map((reason) => colors.dim(reason))];
}
