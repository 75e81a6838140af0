import { isTareError, type TareError, UsageError } from "../../../src/base/errors.ts";
import { printable } from "../../../src/base/text.ts";
import type { Finding } from "../../../src/model/finding.ts";
import { type Report, verify } from "../../../src/operations/verify.ts";
import { defineCommand } from "../../command.ts";
import type { Context } from "../../context.ts";
import { renderLocation } from "../../errors.ts";
import { exitCodeOfFindings } from "../../exit-codes.ts";
import { countedText } from "../../render/counted.ts";
import { openArchive } from "./open-vault.ts";

export const vaultScrubCommand = defineCommand({
  positionals: { names: ["VAULT"], min: 1, max: 1 },
  flags: {},
  details: [
    "Reads every stored block, used or not, and proves it: length, hash, tag, frame, chunk id. Names the files that lose by a damaged one, and exits 5, also where tare vault repair could heal it. A damaged header, manifest or list of extensions is told too; damaged parity is a warning, as no file loses by it.",
    "Without the password only the checksums that parity keeps can be compared, and the whole file with its sidecar; the last line, and notChecked in --json, say what was not checked. Where there is nothing to compare with, the password is needed: exit 11.",
  ],
  examples: [{ command: "tare vault scrub models.aerovault", says: "is every byte still what was stored?" }],
  output: "report",
  async run(context, { positionals }) {
    const [target = ""] = positionals;
    const report = await scrub(context, target).catch((error: unknown) => {
      if (!isTareError(error) || error.code !== "usage/password.missing") throw error;
      return scrubSealed(context, target, error);
    });
    await context.show({ json: () => report, text: () => renderReport(report, target, context) });
    return exitCodeOfFindings(report.findings);
  },
});

async function scrub(context: Context, target: string): Promise<Report> {
  const opened = await openArchive(context, target);
  const progress = context.progress({ label: "scrubbing", total: opened.container.storage?.storedBytes });
  const report = await verify(opened, {
    level: "full",
    engine: await context.engine(),
    limits: await context.limits(),
    signal: context.signal,
    onProgress: (byteLength) => progress.add(byteLength),
  });
  progress.end();
  return report;
}

/** What a look without the password can leave out. */
type Unchecked = "manifest" | "blocks" | "contents";

interface SealedReport extends Report {
  readonly notChecked: readonly Unchecked[];
}

/**
 * Without the password, of a vault of version 3 that is a file here. Throws what was `missing` where that leaves nothing to
 * compare: a report without an error would read as if the vault were sound.
 */
async function scrubSealed(context: Context, target: string, missing: TareError): Promise<SealedReport> {
  const [{ verifySealed }, { openFile }, { compareWithSidecar }] = await Promise.all([
    import("../../../src/formats/aerovault/verify-sealed.ts"),
    import("../../../src/platform/node/file-source.ts"),
    import("../../../src/platform/node/vault-sidecar.ts"),
  ]);
  const engine = await context.engine();
  const checked: Record<string, number> = {};
  const count = (what: string, by = 1): void => {
    checked[what] = (checked[what] ?? 0) + by;
  };
  const findings: Finding[] = [];
  const { signal } = context;
  // A URL, standard input or a vault inside another one: there is no such file.
  const source = await openFile(target, { signal }).catch(insteadOf("source/not-found", missing));
  try {
    const options = { level: "full", engine, limits: await context.limits(), signal, count } as const;
    for await (const finding of verifySealed(source, options)) findings.push(finding);
    const doubts = await compareWithSidecar(source, target, { engine, signal, count });
    const notChecked = uncheckedOf(checked, doubts.length === 0);
    if (Object.keys(checked).length === 0) throw nothingToCompare(target, missing);
    findings.push(...doubts, sealedNote(target, notChecked));
    const ok = findings.every(({ severity }) => severity !== "error");
    return { ok, level: "control", weights: "not-compared", checked, notChecked, findings };
  } catch (error) {
    return insteadOf("unsupported/aerovault.older", missing)(error);
  } finally {
    await source.close();
  }
}

function insteadOf(code: TareError["code"], missing: TareError): (error: unknown) => never {
  return (error) => {
    throw isTareError(error) && error.code === code ? missing : error;
  };
}

function uncheckedOf(checked: Readonly<Record<string, number>>, isAsSidecarSays: boolean): readonly Unchecked[] {
  const isWhole = checked["sidecars"] !== undefined && isAsSidecarSays;
  const compared: Readonly<Record<Unchecked, boolean>> = {
    manifest: isWhole || checked["manifests"] !== undefined,
    blocks: isWhole || checked["shards"] !== undefined,
    contents: false, // that they are what was stored is proven by the key alone
  };
  return (["manifest", "blocks", "contents"] as const).filter((part) => !compared[part]);
}

const UNCHECKED_TEXTS: Readonly<Record<Unchecked, string>> = {
  manifest: "the manifest",
  blocks: "the blocks",
  contents: "names, sizes and contents",
};

function uncheckedText(notChecked: readonly Unchecked[]): string {
  return notChecked.map((part) => UNCHECKED_TEXTS[part]).join("; ");
}

function sealedNote(target: string, notChecked: readonly Unchecked[]): Finding {
  const message = `Without the password these were not checked: ${uncheckedText(notChecked)}`;
  const hint = "Run the command again with --password-file FILE";
  return { severity: "note", code: "integrity/aerovault.sealed", message, at: { source: target, offset: 0 }, hint };
}

function nothingToCompare(target: string, { at, hint }: TareError): UsageError {
  const message = `Cannot check "${target}" without a password: there is no parity and no sidecar to compare it with, and only its header was read`;
  return new UsageError("usage/password.missing", message, at, { hint });
}

function renderReport(report: Report | SealedReport, label: string, { colors }: Context): string {
  const lines = report.findings.flatMap(({ severity, message, code, at, hint }) => [
    `${severity.padEnd(7)}  ${printable(message)} [${code}]`,
    colors.dim(`         at ${renderLocation(at)}${hint === undefined ? "" : `: ${printable(hint)}`}`),
  ]);
  const counted = Object.entries(report.checked).map(([what, count]) => countedText(what, count));
  const notChecked = "notChecked" in report ? report.notChecked : [];
  const sound = notChecked.length === 0 ? colors.green("ok") : colors.yellow("no damage in what was checked");
  const verdict = report.ok ? sound : colors.red("damaged");
  const rest = notChecked.length === 0 ? "" : `; not checked: ${uncheckedText(notChecked)}`;
  return [...lines, `${verdict}: ${[printable(label), ...counted].join(", ")}${rest}`].join("\n");
}
