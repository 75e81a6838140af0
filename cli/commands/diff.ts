import { printable } from "../../src/base/text.ts";
import type { Archive } from "../../src/model/archive.ts";
import type { Model } from "../../src/model/model.ts";
import { formatShape } from "../../src/model/shape.ts";
import { requireModel } from "../../src/open.ts";
import { type Delta, type DiffReport, diff, type TensorChange } from "../../src/operations/diff.ts";
import { defineCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { EXIT } from "../exit-codes.ts";
import { formatInteger, formatValue, plural } from "../render/sizes.ts";
import { type Cell, renderTable } from "../render/table.ts";

export const diffCommand = defineCommand({
  positionals: { names: ["A", "B"], min: 2, max: 2 },
  flags: {
    stats: { kind: "switch", summary: "measure how far changed tensors are apart" },
    tolerance: { kind: "number", value: "E", summary: "values that differ by at most E are equal" },
    metadata: { kind: "switch", summary: "metadata differences count too" },
    "exit-code": { kind: "switch", summary: "exit 3 where the two differ" },
  },
  details: [
    "Tensors are compared by name, bit for bit, whatever format the two files have; two vaults by their entries. Differences of metadata are shown, and count only with --metadata.",
  ],
  examples: [
    { command: "tare diff model.safetensors model.gguf --exit-code", says: "is the conversion exact?" },
    { command: "tare diff base.safetensors tuned.safetensors --stats", says: "what fine-tuning changed" },
  ],
  output: "report",
  async run(context, { flags, positionals }) {
    const [first = "", second = ""] = positionals;
    const opened = [(await context.open(first)).container, (await context.open(second)).container] as const;
    if (opened.every((container) => container.kind === "archive")) {
      const { showArchiveDiff } = await import("./archive-diff.ts");
      return showArchiveDiff(opened as readonly Archive[] as [Archive, Archive], flags["exit-code"], context);
    }
    const [a, b] = opened.map(requireModel) as [Model, Model];
    const total = a.tensors.reduce((sum, tensor) => sum + tensor.byteLength, 0);
    const progress = context.progress({ label: "comparing", total });
    const report = await diff(a, b, {
      stats: flags.stats === true ? "stats" : undefined,
      tolerance: flags.tolerance,
      metadata: flags.metadata === true ? "metadata" : undefined,
      concurrency: context.flags.concurrency,
      signal: context.signal,
      onProgress: (byteLength) => progress.add(byteLength),
    });
    progress.end();
    const counted = flags.metadata === true;
    await context.show({ json: () => report, text: () => renderDiff(report, counted ? "counted" : "shown", context) });
    return !report.equal && flags["exit-code"] === true ? EXIT.findings : EXIT.success;
  },
});

function renderDiff(report: DiffReport, metadata: "counted" | "shown", context: Context): string {
  const { colors, width } = context;
  const rows: Cell[][] = [
    ...report.removed.map((name): Cell[] => [{ text: "- removed", style: colors.red }, printable(name), ""]),
    ...report.added.map((name): Cell[] => [{ text: "+ added", style: colors.green }, printable(name), ""]),
    ...report.changed.map((change): Cell[] => {
      return [
        { text: `~ ${change.what.join(", ")}`, style: colors.yellow },
        printable(change.name),
        describeTypes(change),
      ];
    }),
    ...report.metadata.map(({ key, what }): Cell[] => {
      return [{ text: `  ${what}`, style: colors.dim }, `metadata ${printable(key)}`, ""];
    }),
  ];
  if (rows.length === 0) return summarise(report, metadata, context);
  const lines = renderTable([{}, { cut: "middle" }, { cut: "end" }], rows, { width }).split("\n");
  const firstChange = report.removed.length + report.added.length;
  const withDeltas = lines.flatMap((line, i) => {
    const delta = report.changed[i - firstChange]?.delta;
    return delta === undefined ? [line] : [line, colors.dim(`    ${describeDelta(delta)}`)];
  });
  return [...withDeltas, "", summarise(report, metadata, context)].join("\n");
}

function summarise(report: DiffReport, metadata: "counted" | "shown", { colors }: Context): string {
  const { equal, added, removed, changed, unchanged } = report;
  const keys = report.metadata.length;
  const aside =
    keys > 0 ? `, ${plural(keys, "metadata difference")}${metadata === "counted" ? "" : " (not counted)"}` : "";
  if (equal) return `${colors.green("equal")}: ${plural(unchanged, "tensor")} the same${aside}`;
  const parts = [
    `${formatInteger(changed.length)} changed`,
    `${formatInteger(added.length)} added`,
    `${formatInteger(removed.length)} removed`,
    `${formatInteger(unchanged)} the same`,
  ];
  return `${colors.yellow("different")}: ${parts.join(", ")}${aside}`;
}

function describeTypes({ what, a, b }: TensorChange): string {
  const type = what.includes("dtype") ? `${a.dtype} → ${b.dtype}` : a.dtype;
  const shape = what.includes("shape") ? `${formatShape(a.shape)} → ${formatShape(b.shape)}` : formatShape(a.shape);
  return `${type} ${shape}`;
}

function describeDelta({ differing, maxAbs, meanAbs, cosine }: Delta): string {
  const values = plural(differing, "value differs", "values differ");
  const angle = cosine === null ? "" : `, cosine ${cosine.toFixed(6)}`;
  return `${values}, by ${formatValue(maxAbs)} at most, ${formatValue(meanAbs)} on average${angle}`;
}
