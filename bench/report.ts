import { readFile, writeFile } from "node:fs/promises";
import { cpus, loadavg, totalmem } from "node:os";
import type { Row } from "./job.ts";
import type { Recorded } from "./results.ts";

export const BEGIN = "<!-- figures: written by `npm run bench`, do not edit by hand -->";
export const END = "<!-- end of figures -->";

/** What the figures depend on in addition to the code. */
export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memory: string;
  readonly system: string;
  readonly node: string;
  readonly date: string;
  readonly load: string;
}

export function describeMachine(): Machine {
  const processors = cpus();
  return {
    cpu: processors[0]?.model.trim() ?? "unknown processor",
    cores: processors.length,
    memory: `${(totalmem() / 2 ** 30).toFixed(0)} GiB`,
    system: `${process.platform} ${process.arch}`,
    node: process.version,
    date: new Date().toISOString().slice(0, 10),
    load: loadavg()[0]?.toFixed(2) ?? "unknown",
  };
}

const HEADINGS = ["job", "measure", "tare", "against", "ratio", "goal", "met"];

function cells(row: Row): string[] {
  const met = row.met === undefined ? "" : row.met ? "yes" : "**no**";
  return [row.job, row.measure, row.ours, row.theirs ?? "", row.ratio ?? "", row.goal ?? "", met];
}

/** A Markdown table, padded so that it also reads well in a terminal. */
export function renderTable(rows: readonly Row[]): string {
  const lines = [HEADINGS, ...rows.map(cells)];
  const widths = HEADINGS.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  const render = (line: readonly string[]) =>
    `| ${line.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(" | ")} |`;
  const rule = `|${widths.map((width) => "-".repeat(width + 2)).join("|")}|`;
  return [render(HEADINGS), rule, ...rows.map((row) => render(cells(row)))].join("\n");
}

/** The part of docs/performance.md between the two markers, for users. */
export function renderFigures(results: readonly Recorded[]): string {
  const [{ machine }] = results as [Recorded];
  return [
    `Measured on ${machine.cores} cores, ${machine.memory}, ${machine.system}, Node ${machine.node}.`,
    "Each figure is the median of interleaved runs after a warm-up, with the fastest and the slowest in parentheses.",
    "[bench/NOTES.md](../bench/NOTES.md#command-lines) has the command lines of every job, with the date, the processor,",
    "the number of runs and the load of the machine.",
    "",
    renderTable(results.flatMap(({ rows }) => rows)),
  ].join("\n");
}

/** The part of bench/NOTES.md between the two markers: how each figure was made. */
export function renderCommands(results: readonly Recorded[]): string {
  const jobs = results.map(({ name, title, machine: { date, load, cpu }, runs, folder, commands, notes }) => {
    const where = `${date}, ${cpu}, ${runs} runs, load average ${load}, files on ${folder}.`;
    const text = [`**${name}**: ${title}`, "", where, "", "```sh", ...commands, "```"];
    for (const note of notes ?? []) text.push("", `Note: ${note}.`);
    return text.join("\n");
  });
  return jobs.join("\n\n");
}

/** Replaces the text between the markers. People write everything else on the page. */
export async function writeFigures(page: string, figures: string): Promise<void> {
  const text = await readFile(page, "utf8");
  const begin = text.indexOf(BEGIN);
  const end = text.indexOf(END);
  if (begin < 0 || end < begin)
    throw new Error(`Cannot write figures: ${page} must hold both marker comments in order`);
  await writeFile(page, `${text.slice(0, begin + BEGIN.length)}\n\n${figures}\n\n${text.slice(end)}`);
}
