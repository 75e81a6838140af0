import { basename } from "node:path";
import type { VaultInfoResult } from "../../src/api/vault/results.ts";
import {
  formatCount,
  formatInteger,
  formatShare,
  formatSize,
  formatSizeBoth,
  formatTime,
  plural,
} from "../../src/base/figures.ts";
import { printable } from "../../src/base/text.ts";
import { formatShape } from "../../src/model/dtype.ts";
import type { Finding } from "../../src/model/finding.ts";
import { takeOrigin } from "../../src/model/origin/origin.ts";
import type { Inspection, ModelDescription } from "../../src/operations/inspect.ts";
import type { Context } from "../context.ts";
import { bar } from "./charts.ts";
import type { Colors } from "./colors.ts";
import { valueText } from "./look/metadata.ts";
import { renderTable } from "./table.ts";
import { padEnd, wrap } from "./text-width.ts";

export interface InspectionDetails {
  readonly label: string;
  readonly cost: {
    readonly reads: number;
    readonly bytes: number;
    readonly requests: number;
    readonly milliseconds: number;
  };
  readonly metadata: "first" | "all";
}

interface Screen {
  readonly colors: Colors;
  readonly width: number | undefined;
}

const LABEL_CELLS = 12;
const BAR_CELLS = 20;
/** Characters of a text that are shown. */
const MAX_TEXT = 200;
/** How many rows of each kind fit a screen of about twenty lines. */
const SHOWN = { types: 5, metadata: 6, warnings: 5, files: 4 } as const;
/** Widest line if the output is not a terminal and nothing has to be cut. */
const FREE_WIDTH = 100;

/** The model on one screen: what it is, its size, its types, and the cost of finding out. */
export function renderInspection(inspection: Inspection, details: InspectionDetails, screen: Screen): string {
  const width = Math.min(screen.width ?? FREE_WIDTH, 120);
  const inner = width - LABEL_CELLS - 2;
  const blocks: (readonly [label: string, lines: readonly string[]])[] = [
    // An archive is not a model, so it has no line for what it lacks.
    ["model", inspection.entryCount === undefined ? describe(inspection.description, inner) : []],
    ["holds", holdings(inspection, inner)],
    ["types", types(inspection, screen)],
    ["largest", largest(inspection, inner)],
    ["metadata", inspection.entryCount === undefined ? metadata(inspection, details, { ...screen, width: inner }) : []],
    ["files", files(inspection, inner)],
    ["format", [...inspection.facts.map(([name, value]) => `${name}: ${printable(value)}`), ...cameFrom(inspection)]],
    ["integrity", [integrity(inspection)]],
    ["warnings", warnings(inspection.warnings, inner, screen.colors)],
  ];
  const lines = [title(inspection, details, screen.colors), ""];
  for (const [label, content] of blocks) {
    content.forEach((line, i) => {
      lines.push(`  ${screen.colors.dim(padEnd(i === 0 ? label : "", LABEL_CELLS))}${line}`);
    });
  }
  lines.push("", screen.colors.dim(looked(details)));
  return lines.join("\n");
}

function title(inspection: Inspection, details: InspectionDetails, colors: Colors): string {
  const { formatName, version, byteLength } = inspection;
  const isNamed = version === undefined || formatName.endsWith(` v${version}`);
  const format = isNamed ? formatName : `${formatName} ${version}`;
  return `${colors.bold(printable(basename(details.label)))}  ${format}, ${formatSizeBoth(byteLength)}`;
}

function describe(description: ModelDescription, width: number): string[] {
  const { name, architecture, layers, heads, keyValueHeads, feedForward, contextLength, vocabulary, license } =
    description;
  const number = (label: string, value: number | undefined): string | undefined =>
    value === undefined ? undefined : `${label} ${formatInteger(value)}`;
  const headsText = heads === undefined ? undefined : plural(heads, "head");
  const grouped = keyValueHeads !== undefined && keyValueHeads !== heads ? ` (${keyValueHeads} key-value)` : "";
  const facts = [
    name === undefined ? undefined : `"${printable(name)}"`,
    architecture === undefined ? undefined : printable(architecture),
    layers === undefined ? undefined : plural(layers, "layer"),
    number("width", description.width),
    headsText === undefined ? undefined : headsText + grouped,
    number("feed-forward", feedForward),
    number("context", contextLength),
    number("vocabulary", vocabulary),
    license === undefined ? undefined : `license ${printable(license)}`,
  ].filter((fact) => fact !== undefined);
  return facts.length === 0 ? ["not said in this file"] : wrap(facts.join(", "), width);
}

function holdings(inspection: Inspection, width: number): string[] {
  const { tensorCount, parameterCount, entryCount, quantization, bitsPerWeight } = inspection;
  if (entryCount !== undefined) return [plural(entryCount, "entry", "entries")];
  if (tensorCount === undefined || parameterCount === undefined) return [];
  const held = `${formatCount(parameterCount)} parameters in ${plural(tensorCount, "tensor")}`;
  if (quantization === undefined || bitsPerWeight === undefined) return [held];
  return wrap(`${held}, ${quantization}, ${bitsPerWeight} bits per weight`, width);
}

function types({ dtypes }: Inspection, { colors, width }: Screen): string[] {
  const total = dtypes.reduce((sum, type) => sum + type.byteLength, 0);
  const rows = dtypes.slice(0, SHOWN.types).map((type) => {
    const share = total === 0 ? 0 : type.byteLength / total;
    return [
      { text: type.dtype, style: colors.cyan },
      plural(type.tensorCount, "tensor"),
      formatSize(type.byteLength),
      formatShare(type.byteLength, total),
      { text: bar(share, BAR_CELLS), style: colors.cyan },
    ];
  });
  if (rows.length === 0) return [];
  const right = { align: "right" } as const;
  const table = renderTable([{}, right, right, right, { narrow: "drop" }], rows, { width }).split("\n");
  const more = dtypes.length - rows.length;
  return more > 0 ? [...table, `and ${plural(more, "more type")}`] : table;
}

function largest({ largest: tensors }: Inspection, width: number): string[] {
  if (tensors.length === 0) return [];
  const rows = tensors.map((tensor) => [
    formatSize(tensor.byteLength),
    tensor.dtype,
    formatShape(tensor.shape),
    printable(tensor.name),
  ]);
  return renderTable([{ align: "right" }, {}, {}, { cut: "middle" }], rows, { width }).split("\n");
}

function metadata(
  inspection: Inspection,
  details: InspectionDetails,
  screen: { width: number; colors: Colors },
): string[] {
  const entries = takeOrigin(inspection.metadata).metadata.entries;
  if (entries.length === 0) return ["none"];
  const shown = details.metadata === "all" ? entries : entries.slice(0, SHOWN.metadata);
  const rows = shown.map(({ key, value }) => [printable(key), valueText(value, MAX_TEXT)]);
  const options = details.metadata === "all" ? {} : { width: screen.width };
  const lines = renderTable([{ cut: "middle" }, { cut: "end" }], rows, options).split("\n");
  const more = entries.length - shown.length;
  return more > 0 ? [...lines, screen.colors.dim(`and ${plural(more, "more key")}: --metadata shows all`)] : lines;
}

/** What an earlier conversion noted about itself, in words. */
function cameFrom(inspection: Inspection): string[] {
  const chain = takeOrigin(inspection.metadata).origin?.chain ?? [];
  return chain.length === 0
    ? []
    : [`converted from ${chain.map((link) => printable(link.format)).join(", before that ")}`];
}

/** Only if there are several: a single file is already in the title. */
function files(inspection: Inspection, width: number): string[] {
  if (inspection.files.length < 2) return [];
  const shown = inspection.files.slice(0, SHOWN.files);
  const rows = shown.map((file) => [formatSize(file.byteLength), printable(basename(file.label))]);
  const lines = renderTable([{ align: "right" }, { cut: "middle" }], rows, { width }).split("\n");
  const more = inspection.files.length - shown.length;
  return more > 0 ? [...lines, `and ${plural(more, "more file")}`] : lines;
}

function integrity(inspection: Inspection): string {
  if (inspection.integrity === "digests") return "the file carries digests; check them with: tare verify";
  return `${inspection.formatName} has none; tare verify --digest sha256 --json makes a list`;
}

function warnings(findings: readonly Finding[], width: number, colors: Colors): string[] {
  if (findings.length === 0) return ["none"];
  const shown = findings.slice(0, SHOWN.warnings).flatMap((finding) => {
    const style = finding.severity === "note" ? colors.dim : colors.yellow;
    return wrap(`${printable(finding.message)} [${finding.code}]`, width).map(style);
  });
  const more = findings.length - SHOWN.warnings;
  return more > 0 ? [...shown, `and ${formatInteger(more)} more`] : shown;
}

function looked({ cost }: InspectionDetails): string {
  const how = cost.requests > 0 ? plural(cost.requests, "request") : plural(cost.reads, "read");
  return `looked at ${formatSize(cost.bytes)} in ${how}, ${formatTime(cost.milliseconds)}`;
}

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
