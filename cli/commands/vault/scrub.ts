import { isTareError } from "../../../src/base/errors.ts";
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
    "Without the password only the checksums that parity keeps can be compared, and the whole file with its sidecar; what was not checked is said.",
  ],
  examples: [{ command: "tare vault scrub models.aerovault", says: "is every byte still what was stored?" }],
  output: "report",
  async run(context, { positionals }) {
    const [target = ""] = positionals;
    const report = await scrub(context, target).catch((error: unknown) => {
      if (!isTareError(error) || error.code !== "usage/password.missing") throw error;
      return scrubSealed(context, target);
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

/** Without the password, of a vault that is a file here. */
async function scrubSealed(context: Context, target: string): Promise<Report> {
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
  const source = await openFile(target, { signal: context.signal });
  try {
    const { signal } = context;
    const options = { level: "full", engine, limits: await context.limits(), signal, count } as const;
    for await (const finding of verifySealed(source, options)) findings.push(finding);
    findings.push(...(await compareWithSidecar(source, target, { engine, signal, count })));
  } finally {
    await source.close();
  }
  const ok = findings.every(({ severity }) => severity !== "error");
  return { ok, level: "control", weights: "not-compared", checked, findings };
}

function renderReport(report: Report, label: string, { colors }: Context): string {
  const lines = report.findings.flatMap(({ severity, message, code, at, hint }) => [
    `${severity.padEnd(7)}  ${printable(message)} [${code}]`,
    colors.dim(`         at ${renderLocation(at)}${hint === undefined ? "" : `: ${printable(hint)}`}`),
  ]);
  const counted = Object.entries(report.checked).map(([what, count]) => countedText(what, count));
  const verdict = report.ok ? colors.green("ok") : colors.red("damaged");
  return [...lines, `${verdict}: ${[printable(label), ...counted].join(", ")}`].join("\n");
}
