import type { DiffResult } from "../../../src/api/look/diff.ts";
import type { StampResult } from "../../../src/api/move/stamp.ts";
import { formatInteger, formatSize, formatValue, plural } from "../../../src/base/figures.ts";
import { printable } from "../../../src/base/text.ts";
import { formatShape } from "../../../src/model/dtype.ts";
import type { MetadataValue } from "../../../src/model/metadata.ts";
import { ORIGIN_KEY } from "../../../src/model/origin/origin.ts";
import type { ArchiveDiffReport, Delta, DiffReport, EntryChange, TensorChange } from "../../../src/operations/diff.ts";
import { valueToJson } from "../../../src/operations/inspect.ts";
import { type MetadataChange, typeOf } from "../../../src/operations/stamp.ts";
import type { Context } from "../../context.ts";
import { type Cell, renderTable } from "../table.ts";

/** The differences of two models, or of two vaults. */
export function renderDiff(result: DiffResult, metadata: "counted" | "shown", context: Context): string {
  const isOfVaults = result.metadata === undefined;
  return isOfVaults
    ? renderArchiveDiff(result as ArchiveDiffReport, context)
    : renderModelDiff(result as DiffReport, metadata, context);
}

function renderModelDiff(report: DiffReport, metadata: "counted" | "shown", context: Context): string {
  const { colors, width } = context;
  const rows: Cell[][] = [
    ...changeRows(report, describeTypes, context),
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

interface Changes<C> {
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly changed: readonly C[];
  readonly unchanged: number;
}

/** A row for each tensor or entry that is not the same in both. */
function changeRows<C extends { readonly name: string; readonly what: readonly string[] }>(
  { removed, added, changed }: Changes<C>,
  describe: (change: C) => string,
  { colors }: Context,
): Cell[][] {
  return [
    ...removed.map((name): Cell[] => [{ text: "- removed", style: colors.red }, printable(name), ""]),
    ...added.map((name): Cell[] => [{ text: "+ added", style: colors.green }, printable(name), ""]),
    ...changed.map((change): Cell[] => {
      const what = { text: `~ ${change.what.join(", ")}`, style: colors.yellow };
      return [what, printable(change.name), describe(change)];
    }),
  ];
}

function counts({ changed, added, removed, unchanged }: Changes<unknown>): string {
  return [
    `${formatInteger(changed.length)} changed`,
    `${formatInteger(added.length)} added`,
    `${formatInteger(removed.length)} removed`,
    `${formatInteger(unchanged)} the same`,
  ].join(", ");
}

function summarise(report: DiffReport, metadata: "counted" | "shown", { colors }: Context): string {
  const { equal, unchanged } = report;
  const keys = report.metadata.length;
  const aside =
    keys > 0 ? `, ${plural(keys, "metadata difference")}${metadata === "counted" ? "" : " (not counted)"}` : "";
  if (equal) return `${colors.green("equal")}: ${plural(unchanged, "tensor")} the same${aside}`;
  return `${colors.yellow("different")}: ${counts(report)}${aside}`;
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

function renderArchiveDiff(report: ArchiveDiffReport, context: Context): string {
  const { width } = context;
  const rows = changeRows(report, describeChange, context);
  const lines = rows.length === 0 ? [] : [renderTable([{}, { cut: "middle" }, { cut: "end" }], rows, { width }), ""];
  return [...lines, summariseArchives(report, context)].join("\n");
}

function describeChange({ what, a, b }: EntryChange): string {
  if (what.includes("type")) return `${a.type} → ${b.type}`;
  return what.includes("size") ? `${formatSize(a.size)} → ${formatSize(b.size)}` : formatSize(a.size);
}

function summariseArchives(report: ArchiveDiffReport, { colors }: Context): string {
  const { equal, unchanged } = report;
  if (equal) return `${colors.green("equal")}: ${plural(unchanged, "entry", "entries")} the same`;
  return `${colors.yellow("different")}: ${counts(report)}`;
}

/** What was edited, or would be. */
export function renderStamp(
  { mode, dryRun }: StampResult,
  { path, changes }: { readonly path: string; readonly changes: readonly MetadataChange[] },
): string {
  if (mode === "nothing") return `${path}: nothing to change`;
  const how = { "in place": "edited in place", rewritten: "rewritten", "new file": "written" }[mode];
  const shown = changes.filter(({ key }) => key !== ORIGIN_KEY);
  const lines = shown.map(({ key, before, after }) => `  ${printable(key)}: ${shorten(before)} -> ${shorten(after)}`);
  const count = `${shown.length} ${shown.length === 1 ? "key" : "keys"}`;
  return [`${path}: ${dryRun ? "would be " : ""}${how}, ${count} changed`, ...lines].join("\n");
}

/** One line for a value of any length. */
function shorten(value: MetadataValue | undefined): string {
  if (value === undefined) return "none";
  if (value.type === "array") return `${typeOf(value)}, ${value.length} elements`;
  const text = printable(JSON.stringify(valueToJson(value)));
  return `${text.length > 60 ? `${text.slice(0, 57)}…` : text} (${value.type})`;
}
