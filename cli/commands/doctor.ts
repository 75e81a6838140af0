import { availableParallelism, cpus, totalmem } from "node:os";
import { FORMATS } from "../../src/formats/registry.ts";
import { cacheFolder } from "../../src/platform/node/cache-place.ts";
import { measureEngine } from "../../src/primitives/measure.ts";
import { defineCommand } from "../command.ts";
import type { Context, Environment } from "../context.ts";
import { EXIT } from "../exit-codes.ts";
import { formatSize } from "../render/sizes.ts";
import { renderTable } from "../render/table.ts";
import { readVersion } from "../version.ts";

/** How long each primitive is measured: long enough to be right within a few percent. */
const MEASURE_MS = 60;

const PROXY_VARIABLES = ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"];

export const doctorCommand = defineCommand({
  positionals: { names: [], min: 0, max: 0 },
  flags: {},
  details: ["Measures every primitive for a moment on one thread. Nothing is sent anywhere."],
  examples: [{ command: "tare doctor --engine portable", says: "how fast without native parts" }],
  output: "report",
  async run(context) {
    const report = await examine(context);
    await context.show({ json: () => report, text: () => renderDoctor(report, context) });
    return EXIT.success;
  },
});

interface DoctorReport {
  readonly version: string;
  readonly node: string;
  readonly platform: string;
  readonly cpu: string;
  readonly cores: number;
  readonly memoryBytes: number;
  readonly cache: string;
  readonly proxies: Readonly<Record<string, string>>;
  readonly engine: {
    readonly name: string;
    readonly primitives: readonly {
      readonly primitive: string;
      readonly implementation: string;
      readonly bytesPerSecond: number;
    }[];
  };
  readonly formats: readonly FormatSupport[];
}

interface FormatSupport {
  readonly id: string;
  readonly name: string;
  readonly extensions: readonly string[];
  readonly read: true;
  readonly write: boolean;
}

async function examine(context: Context): Promise<DoctorReport> {
  const engine = await context.engine();
  const primitives = await measureEngine(engine, { milliseconds: MEASURE_MS });
  return {
    version: readVersion(),
    node: process.versions.node,
    platform: `${process.platform} ${process.arch}`,
    cpu: cpus()[0]?.model.trim() ?? "unknown",
    cores: availableParallelism(),
    memoryBytes: totalmem(),
    cache: cacheFolder(context.env),
    proxies: seenProxies(context.env),
    engine: {
      name: engine.name,
      primitives: primitives.map((row) => ({ ...row, bytesPerSecond: Math.round(row.bytesPerSecond) })),
    },
    formats: FORMATS.map(({ id, name, extensions, write }) => ({
      id,
      name,
      extensions,
      read: true,
      write: write !== undefined,
    })),
  };
}

/** The proxies that requests would use, without user names and passwords. */
export function seenProxies(env: Environment): Record<string, string> {
  const seen: Record<string, string> = {};
  for (const name of PROXY_VARIABLES) {
    const value = env[name.toLowerCase()] || env[name];
    if (value) seen[name] = value.replace(/^([a-z][a-z0-9+.-]*:\/\/)?[^/@]*@/i, "$1…@");
  }
  return seen;
}

function renderDoctor(report: DoctorReport, context: Context): string {
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
