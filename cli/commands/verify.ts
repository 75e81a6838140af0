import { isTareError, UsageError } from "../../src/base/errors.ts";
import { printable } from "../../src/base/text.ts";
import { type Finding, findingFromError } from "../../src/model/finding.ts";
import type { VerifyLevel } from "../../src/model/format.ts";
import { type Report, type VerifyOptions, verify } from "../../src/operations/verify.ts";
import type { OpenedTarget } from "../../src/platform/node/open-target.ts";
import { defineCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { readDigestList } from "../digest-list.ts";
import { renderLocation } from "../errors.ts";
import { type ExitCode, exitCodeOf, exitCodeOfFindings } from "../exit-codes.ts";
import { formatSize, plural } from "../render/sizes.ts";
import { wrap } from "../render/text-width.ts";

const FLAGS = {
  quick: { kind: "switch", summary: "structure only: what opening checks" },
  control: { kind: "switch", summary: "structure and everything but the tensor data" },
  full: { kind: "switch", summary: "all that the format lets a reader check (the default)" },
  digest: { kind: "choice", choices: ["sha256", "blake3"], summary: "compute and print a digest of every tensor" },
  digests: { kind: "path", value: "FILE", summary: "compare with the digests that --digest --json wrote to FILE" },
} as const;

export const verifyCommand = defineCommand({
  positionals: { names: ["TARGET"], min: 1, max: 1 },
  flags: FLAGS,
  details: [
    "Collects findings instead of stopping at the first, and exits with the class of the gravest: 4 where bytes break the format, 5 where something is damaged.",
  ],
  examples: [
    { command: "tare verify model.gguf", says: "everything the format can tell" },
    {
      command: "tare verify model.safetensors --digest sha256 --json > digests.json",
      says: "keep digests of every tensor",
    },
    { command: "tare verify model.safetensors --digests digests.json", says: "is every tensor still the same?" },
  ],
  output: "report",
  async run(context, { flags, positionals }) {
    const [target = ""] = positionals;
    const level = chooseLevel(flags);
    const expected = flags.digests === undefined ? undefined : await readDigestList(flags.digests);
    const opened = await openOrReport(context, target, level);
    if (!("container" in opened)) return opened.exitCode;
    const report = await runVerify(context, opened, { level, digest: flags.digest, expected });
    await context.show({
      json: () => report,
      text: () => {
        // With a list to compare with, the digests themselves are no news.
        const shown = flags.digest === undefined ? { ...report, digests: [] } : report;
        return renderReport(shown, opened.label, context);
      },
    });
    return exitCodeOfFindings(report.findings);
  },
});

function chooseLevel(flags: { quick?: true; control?: true; full?: true }): VerifyLevel {
  const chosen = (["quick", "control", "full"] as const).filter((level) => flags[level] === true);
  if (chosen.length <= 1) return chosen[0] ?? "full";
  const message = `Cannot use ${chosen.map((level) => `--${level}`).join(" and ")} together: choose one`;
  throw new UsageError("usage/arguments", message, { source: "command line" });
}

/** Scripts get a report for a file that is too damaged to open; people get the error with its hint. */
async function openOrReport(
  context: Context,
  target: string,
  level: VerifyLevel,
): Promise<OpenedTarget | { readonly exitCode: ExitCode }> {
  try {
    return await context.open(target);
  } catch (error) {
    const reportable = isTareError(error) && /^(format|integrity|limit)\//.test(error.code);
    if (context.flags.json !== true || !reportable) throw error;
    const report: Report = {
      ok: false,
      level,
      weights: "not-compared",
      checked: {},
      findings: [findingFromError(error)],
    };
    await context.show({ json: () => report, text: () => "" });
    return { exitCode: exitCodeOf(error) };
  }
}

type Wanted = Pick<VerifyOptions, "level" | "digest" | "expected">;

async function runVerify(context: Context, opened: OpenedTarget, wanted: Wanted): Promise<Report> {
  const { container } = opened;
  const fileBytes = container.parts.reduce((sum, part) => sum + part.byteLength, 0);
  const hashes = wanted.digest !== undefined || wanted.expected !== undefined;
  const progress = context.progress({ label: "verifying", total: hashes ? fileBytes : undefined });
  const report = await verify(opened, {
    ...wanted,
    engine: await context.engine(),
    limits: await context.limits(),
    concurrency: context.flags.concurrency,
    signal: context.signal,
    onProgress: (byteLength) => progress.add(byteLength),
  });
  progress.end();
  return report;
}

function renderReport(report: Report, label: string, context: Context): string {
  const { colors } = context;
  const lines = report.findings.flatMap((finding) => renderFinding(finding, context));
  if (lines.length > 0) lines.push("");
  const digests = (report.digests ?? []).map((digest) => `${digest.hex}  ${printable(digest.name)}`);
  if (digests.length > 0) lines.push(...digests, "");
  const verdict = report.ok ? colors.green("ok") : colors.red("damaged");
  const told = [summary(report), ...(report.ok ? caveats(report) : [])];
  return [...lines, `${verdict}: ${printable(label)}`, ...told.flatMap((text) => wrap(text, widthOf(context)))].join(
    "\n",
  );
}

/** An "ok" must not sound like more than it is. */
function caveats(report: Report): string[] {
  if (report.weights === "compared") return [];
  if ((report.digests ?? []).length > 0)
    return ["digests made, nothing to compare them with yet: keep them with --json"];
  return ["the weights were not compared with anything: see --digest and --digests"];
}

/** "full check of 39 tensors, 2.82 MB: nothing found". */
function summary(report: Report): string {
  const counted = Object.entries(report.checked).map(([what, count]) => {
    if (what === "bytes") return formatSize(count);
    if (what === "digestBytes") return `${formatSize(count)} hashed`;
    if (what.endsWith("Bytes")) return `${formatSize(count)} of ${what.slice(0, -"Bytes".length)}`;
    return plural(count, what.replace(/s$/, ""), what);
  });
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
  const [first = "", ...others] = wrap(`${printable(finding.message)} [${finding.code}]`, width);
  const lines = [`${style(finding.severity.padEnd(7))}  ${first}`, ...others.map((line) => INDENT + line)];
  const asides = [where === "" ? undefined : `at ${where}`, finding.hint].filter((text) => text !== undefined);
  for (const text of asides) lines.push(...wrap(printable(text), width).map((line) => INDENT + colors.dim(line)));
  return lines;
}
