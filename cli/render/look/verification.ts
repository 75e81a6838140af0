import { formatSize, plural } from "../../../src/base/figures.ts";
import { printable } from "../../../src/base/text.ts";
import type { Finding } from "../../../src/model/finding.ts";
import type { Report } from "../../../src/operations/verify.ts";
import type { Context } from "../../context.ts";
import { renderLocation } from "../../errors.ts";
import { EXIT, exitCodeOfFindings } from "../../exit-codes.ts";
import { flagsFor } from "../../flags/option-names.ts";
import { wrap } from "../text-width.ts";

/** Findings, digests, and a verdict that promises no more than was checked. */
export function renderReport(report: Report, label: string, context: Context): string {
  const { colors } = context;
  const lines = report.findings.flatMap((finding) => renderFinding(finding, context));
  if (lines.length > 0) lines.push("");
  for (const { hex, name } of report.digests ?? []) lines.push(`${hex}  ${printable(name)}`);
  if ((report.digests ?? []).length > 0) lines.push("");
  const verdict = report.ok ? colors.green("ok") : colors.red(verdictOf(report.findings));
  const told = [summary(report), ...(report.ok ? caveats(report) : [])];
  return [...lines, `${verdict}: ${printable(label)}`, ...told.flatMap((text) => wrap(text, widthOf(context)))].join(
    "\n",
  );
}

/** A file that is merely not signed is not damaged. */
function verdictOf(findings: readonly Finding[]): string {
  return exitCodeOfFindings(findings) === EXIT.signature ? "not trusted" : "damaged";
}

/** An "ok" must not promise more than was checked. */
function caveats(report: Report): string[] {
  if (report.weights === "compared") return [];
  if ((report.digests ?? []).length > 0)
    return ["digests made, nothing to compare them with yet: keep them with --json"];
  const more = report.level === "full" ? "--digest and --digests" : "--full, --digest and --digests";
  return [`the weights were not compared with anything: see ${more}`];
}

/** "full check of 39 tensors, 2.82 MB: nothing found". */
function summary(report: Report): string {
  const counted = Object.entries(report.checked).map(([what, count]) => countedText(what, count));
  const severities = (["error", "warning", "note"] as const).flatMap((severity) => {
    const count = report.findings.filter((finding) => finding.severity === severity).length;
    return count === 0 ? [] : [plural(count, severity)];
  });
  const found = severities.length === 0 ? "nothing found" : severities.join(", ");
  return `${report.level} check${counted.length === 0 ? "" : ` of ${counted.join(", ")}`}: ${found}`;
}

function widthOf(context: Context): number {
  return context.width ?? Number.POSITIVE_INFINITY;
}

const INDENT = " ".repeat(9);

function renderFinding(finding: Finding, context: Context): string[] {
  const { colors } = context;
  const width = widthOf(context) - INDENT.length;
  const style = { error: colors.red, warning: colors.yellow, note: colors.dim }[finding.severity];
  const where = renderLocation(finding.at);
  const [first = "", ...others] = wrap(flagsFor(`${printable(finding.message)} [${finding.code}]`), width);
  const lines = [`${style(finding.severity.padEnd(7))}  ${first}`, ...others.map((line) => INDENT + line)];
  const asides = [where === "" ? undefined : `at ${where}`, finding.hint].filter((text) => text !== undefined);
  for (const text of asides)
    lines.push(...wrap(flagsFor(printable(text)), width).map((line) => INDENT + colors.dim(line)));
  return lines;
}

/** The counts of verify in plain words: "39 tensor hashes", "1 control region", "2.82 MB". */
export function countedText(what: string, count: number): string {
  if (what === "bytes") return formatSize(count);
  if (what === "digestBytes") return `${formatSize(count)} hashed`;
  if (what === "vaultBytes") return `${formatSize(count)} proven by the vault`;
  const words = what.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  if (what.endsWith("Bytes")) return `${formatSize(count)} of ${words.slice(0, -" bytes".length)}`;
  return plural(count, singular(words), words);
}

function singular(words: string): string {
  if (words.endsWith("ies")) return `${words.slice(0, -"ies".length)}y`;
  return words.replace(/(?<=sh|ch|x|ss)es$|s$/, "");
}
