import { formatSize } from "../../../src/base/figures.ts";
import { type DoctorResult, examineMachine } from "../../../src/platform/node/verbs/doctor.ts";
import { defineCommand } from "../../command.ts";
import type { Context } from "../../context.ts";
import { EXIT } from "../../exit-codes.ts";
import { renderTable } from "../../render/table.ts";

export const doctorCommand = defineCommand({
  positionals: { names: [], min: 0, max: 0 },
  flags: {},
  details: ["Measures every primitive for a moment on one thread. Nothing is sent anywhere."],
  examples: [{ command: "tare doctor --engine portable", says: "how fast without native parts" }],
  output: "report",
  async run(context) {
    const report = await examineMachine(await context.engine(), context.env);
    await context.show({ json: () => report, text: () => renderDoctor(report, context) });
    return EXIT.success;
  },
});

function renderDoctor(report: DoctorResult, context: Context): string {
  const { colors, width } = context;
  const proxies = Object.entries(report.proxies).map(([name, value]) => `${name}=${value}`);
  const facts = [
    ["tare", report.version],
    ["node", `${report.node}, ${report.platform}`],
    ["machine", `${report.cpu}, ${report.cores} cores, ${formatSize(report.memoryBytes)}`],
    ["cache", report.cache],
    ["proxies", proxies.length === 0 ? "none" : proxies.join("  ")],
  ].map(([label = "", text = ""]) => [{ text: label, style: colors.dim }, text]);
  const primitives = report.engine.primitives.map(({ primitive, implementation, bytesPerSecond }) => [
    { text: primitive, style: colors.cyan },
    implementation,
    `${formatSize(bytesPerSecond)}/s`,
  ]);
  const formats = report.formats.map((format) => [
    { text: format.name, style: colors.cyan },
    format.write ? "read, write" : "read",
    format.extensions.join(" "),
  ]);
  return [
    renderTable([{}, { cut: "end" }], facts, { width }),
    "",
    colors.bold(`engine: ${report.engine.name}`),
    renderTable([{}, {}, { align: "right" }], primitives, { indent: 2 }),
    "",
    colors.bold("formats"),
    renderTable([{}, {}, {}], formats, { indent: 2 }),
  ].join("\n");
}
