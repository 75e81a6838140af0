import { isTareError, UsageError } from "../../src/base/errors.ts";
import { printable } from "../../src/base/text.ts";
import { type Finding, findingFromError } from "../../src/model/finding.ts";
import type { VerifyLevel } from "../../src/model/format.ts";
import { type SignatureDemands, verifySignature } from "../../src/operations/sign.ts";
import { type Report, type VerifyOptions, verify } from "../../src/operations/verify.ts";
import type { OpenedTarget } from "../../src/platform/node/open-target.ts";
import { defineCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { readDigestList } from "../digest-list.ts";
import { renderLocation } from "../errors.ts";
import { EXIT, type ExitCode, exitCodeOf, exitCodeOfFindings } from "../exit-codes.ts";
import { readPublicKey } from "../key-file.ts";
import { countedText } from "../render/counted.ts";
import { plural } from "../render/sizes.ts";
import { wrap } from "../render/text-width.ts";

const FLAGS = {
  quick: { kind: "switch", summary: "structure only: what opening checks" },
  control: { kind: "switch", summary: "structure and everything but the tensor data" },
  full: { kind: "switch", summary: "all that the format lets a reader check (the default)" },
  remote: { kind: "switch", summary: "what can be checked without downloading the weights, and what could not" },
  digest: { kind: "choice", choices: ["sha256", "blake3"], summary: "compute and print a digest of every tensor" },
  digests: { kind: "path", value: "FILE", summary: "compare with the digests that --digest --json wrote to FILE" },
  "public-key": { kind: "path", value: "FILE", summary: "demand a signature by this key, SPKI PEM (exit 12)" },
  "require-signature": { kind: "switch", summary: "demand a valid signature, by whatever key (exit 12)" },
  "allow-unsigned": { kind: "switch", summary: "with --public-key: let files without a signature pass" },
} as const;

export const verifyCommand = defineCommand({
  positionals: { names: ["TARGET"], min: 1, max: 1 },
  flags: FLAGS,
  details: [
    "Collects findings instead of stopping at the first, and exits with the class of the gravest: 4 where bytes break the format, 5 where something is damaged, 12 where a signature is missing or not to be trusted.",
    "A signature, inside the file or beside it as FILE.sig, is checked by the full check. A key that comes with it proves nothing about who signed: --public-key names the one you trust.",
  ],
  examples: [
    { command: "tare verify model.gguf", says: "everything the format can tell" },
    {
      command: "tare verify model.safetensors --digest sha256 --json > digests.json",
      says: "keep digests of every tensor",
    },
    { command: "tare verify model.safetensors --digests digests.json", says: "is every tensor still the same?" },
    { command: "tare verify model.apr --public-key release.pub", says: "is it what the publisher signed?" },
  ],
  output: "report",
  async run(context, { flags, positionals }) {
    const [target = ""] = positionals;
    const level = chooseLevel(flags);
    const reach = flags.remote === true ? "remote" : undefined;
    const expected = flags.digests === undefined ? undefined : await readDigestList(flags.digests);
    const demands = await signatureDemands(flags);
    if (level === "full") await context.expectHashing(target);
    const opened = await openOrReport(context, target, level);
    if (!("container" in opened)) return opened.exitCode;
    const checked = await runVerify(context, opened, { level, reach, digest: flags.digest, expected });
    const report = await withSignature(context, opened, checked, demands);
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

function chooseLevel(flags: { quick?: true; control?: true; full?: true; remote?: true }): VerifyLevel {
  const chosen = (["quick", "control", "full", "remote"] as const).filter((level) => flags[level] === true);
  const [only = "full", second] = chosen;
  if (second === undefined) return only === "remote" ? "control" : only;
  const message = `Cannot use ${chosen.map((level) => `--${level}`).join(" and ")} together: choose one`;
  throw new UsageError("usage/arguments", message, { source: "command line" });
}

interface SignatureFlags {
  readonly "public-key"?: string;
  readonly "require-signature"?: true;
  readonly "allow-unsigned"?: true;
}

/** Undefined where the user said nothing about signatures. */
async function signatureDemands(flags: SignatureFlags): Promise<SignatureDemands | undefined> {
  const { "public-key": path, "require-signature": required, "allow-unsigned": relaxed } = flags;
  if (required === true && relaxed === true) {
    const message = "Cannot use --require-signature and --allow-unsigned together: choose one";
    throw new UsageError("usage/arguments", message, { source: "command line" });
  }
  if (path === undefined && required === undefined) return undefined;
  return {
    publicKey: path === undefined ? undefined : await readPublicKey(path),
    unsigned: relaxed === true ? "allowed" : "refused",
  };
}

/** A signature is over every byte: without being asked, only the full check of something at hand looks at it. */
async function withSignature(
  context: Context,
  opened: OpenedTarget,
  report: Report,
  demands: SignatureDemands | undefined,
): Promise<Report> {
  const isRemote = /^[a-z][a-z0-9+.-]+:\/\//i.test(opened.label);
  if (demands === undefined && (report.level !== "full" || isRemote)) return report;
  const { resolver } = opened;
  const { signal } = context;
  const found = await verifySignature(opened, { engine: await context.engine(), signal, resolver, ...demands });
  const findings = [...report.findings, ...found];
  const isSigned = found.length > 0 && found.every(({ severity }) => severity !== "error");
  const weights = isSigned ? "compared" : report.weights;
  return { ...report, weights, findings, ok: findings.every(({ severity }) => severity !== "error") };
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

type Wanted = Pick<VerifyOptions, "level" | "reach" | "digest" | "expected">;

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
  for (const { hex, name } of report.digests ?? []) lines.push(`${hex}  ${printable(name)}`);
  if ((report.digests ?? []).length > 0) lines.push("");
  const verdict = report.ok ? colors.green("ok") : colors.red(verdictOf(report.findings));
  const told = [summary(report), ...(report.ok ? caveats(report) : [])];
  return [...lines, `${verdict}: ${printable(label)}`, ...told.flatMap((text) => wrap(text, widthOf(context)))].join(
    "\n",
  );
}

/** What is merely not signed is not damaged. */
function verdictOf(findings: readonly Finding[]): string {
  return exitCodeOfFindings(findings) === EXIT.signature ? "not trusted" : "damaged";
}

/** An "ok" must not sound like more than it is. */
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
  const [first = "", ...others] = wrap(`${printable(finding.message)} [${finding.code}]`, width);
  const lines = [`${style(finding.severity.padEnd(7))}  ${first}`, ...others.map((line) => INDENT + line)];
  const asides = [where === "" ? undefined : `at ${where}`, finding.hint].filter((text) => text !== undefined);
  for (const text of asides) lines.push(...wrap(printable(text), width).map((line) => INDENT + colors.dim(line)));
  return lines;
}
