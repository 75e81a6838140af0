import { scrubOpened } from "../../../src/api/vault/reading.ts";
import { isTareError } from "../../../src/base/errors.ts";
import { printable } from "../../../src/base/text.ts";
import type { Report } from "../../../src/operations/verify.ts";
import { type SealedReport, scrubSealed, uncheckedText } from "../../../src/platform/node/vault/index.ts";
import { defineCommand } from "../../command.ts";
import type { Context } from "../../context.ts";
import { renderLocation } from "../../errors.ts";
import { EXIT, type ExitCode, exitCodeOfFindings } from "../../exit-codes.ts";
import { flagsFor } from "../../flags/option-names.ts";
import { readOptions } from "../../host.ts";
import { countedText } from "../../render/look/verification.ts";
import { openArchive } from "./look.ts";

export const vaultScrubCommand = defineCommand({
  positionals: { names: ["VAULT"], min: 1, max: 1 },
  flags: {},
  details: [
    "Reads every stored block, used or not, and proves it: length, hash, tag, frame, chunk id. Names the files that lose by a damaged one, and exits 5, also where tare vault repair could heal it. A damaged header, manifest or list of extensions is told too; damaged parity is a warning, as no file loses by it.",
    "Without the password only the checksums that parity keeps can be compared, and the whole file with its sidecar; the last line, and notChecked in --json, say what was not checked. Where there is nothing to compare with, or the file is not the one that its sidecar was made of, the password is needed: exit 11.",
  ],
  examples: [{ command: "tare vault scrub models.aerovault", says: "is every byte still what was stored?" }],
  output: "report",
  async run(context, { positionals }) {
    const [target = ""] = positionals;
    const report = await scrub(context, target).catch(async (error: unknown) => {
      if (!isTareError(error) || error.code !== "usage/password.missing") throw error;
      const { signal } = context;
      return scrubSealed(target, { engine: await context.engine(), limits: await context.limits(), signal }, error);
    });
    await context.show({ json: () => report, text: () => renderReport(report, target, context) });
    return exitCodeOfReport(report);
  },
});

/** A file that is not what its sidecar was made of is changed or damaged: only the password tells which. */
function exitCodeOfReport({ ok, findings }: Report): ExitCode {
  const isOpen = ok && findings.some(({ code }) => code === "integrity/aerovault.sidecar");
  return isOpen ? EXIT.password : exitCodeOfFindings(findings);
}

async function scrub(context: Context, target: string): Promise<Report> {
  const opened = await openArchive(context, target);
  return scrubOpened(opened, { ...(await readOptions(context)), engine: await context.engine() });
}

function renderReport(report: Report | SealedReport, label: string, { colors }: Context): string {
  const lines = report.findings.flatMap(({ severity, message, code, at, hint }) => [
    flagsFor(`${severity.padEnd(7)}  ${printable(message)} [${code}]`),
    colors.dim(`         at ${renderLocation(at)}${hint === undefined ? "" : `: ${flagsFor(printable(hint))}`}`),
  ]);
  const counted = Object.entries(report.checked).map(([what, count]) => countedText(what, count));
  const notChecked = "notChecked" in report ? report.notChecked : [];
  const sound = notChecked.length === 0 ? colors.green("ok") : colors.yellow("no damage in what was checked");
  const verdict = report.ok ? sound : colors.red("damaged");
  const rest = notChecked.length === 0 ? "" : `; not checked: ${uncheckedText(notChecked)}`;
  return [...lines, `${verdict}: ${[printable(label), ...counted].join(", ")}${rest}`].join("\n");
}
