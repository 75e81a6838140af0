import { printable } from "../../../src/base/text.ts";
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
    "Reads every stored block, used or not, and proves it: length, hash, tag, frame, chunk id. Names the files that lose by a damaged one, and exits 5. The same as: tare verify VAULT",
  ],
  examples: [{ command: "tare vault scrub models.aerovault", says: "is every byte still what was stored?" }],
  output: "report",
  async run(context, { positionals }) {
    const [target = ""] = positionals;
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
    await context.show({ json: () => report, text: () => renderReport(report, opened.label, context) });
    return exitCodeOfFindings(report.findings);
  },
});

function renderReport(report: Report, label: string, { colors }: Context): string {
  const lines = report.findings.flatMap(({ severity, message, code, at, hint }) => [
    `${severity.padEnd(7)}  ${printable(message)} [${code}]`,
    colors.dim(`         at ${renderLocation(at)}${hint === undefined ? "" : `: ${printable(hint)}`}`),
  ]);
  const counted = Object.entries(report.checked).map(([what, count]) => countedText(what, count));
  const verdict = report.ok ? colors.green("ok") : colors.red("damaged");
  return [...lines, `${verdict}: ${printable(label)}, ${counted.join(", ")}`].join("\n");
}
