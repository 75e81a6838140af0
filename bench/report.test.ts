import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { fasterRow, memoryRow, rateRow } from "./job.ts";
import { statisticsOf } from "./measure.ts";
import { BEGIN, END, renderCommands, renderFigures, renderTable, writeFigures } from "./report.ts";
import type { Recorded } from "./results.ts";

const sides = { ours: statisticsOf([90, 100, 110]), theirs: statisticsOf([400, 500, 600]) };

describe("rows", () => {
  it("fasterRow() divides their median by ours and judges it by the goal", () => {
    const place = { job: "j", measure: "m" };
    expect(fasterRow(place, sides, 5)).toMatchObject({ ratio: "5.00× faster", ours: "100 ms (90–110)", met: true });
    expect(fasterRow(place, sides, 5.01)).toMatchObject({ met: false });
    expect(fasterRow(place, sides, undefined)).not.toHaveProperty("met");
  });

  it("rateRow() gives rates in MB/s, with the lowest rate from the slowest time", () => {
    const row = rateRow({ job: "j", measure: "m", byteLength: 99e6 }, sides, 0.5);
    expect(row).toMatchObject({ ours: "990 MB/s (900–1100)", ratio: "5.00 of its rate", met: true });
  });

  it("memoryRow() allows the limit but nothing above it", () => {
    const place = { job: "j", measure: "m" };
    expect(memoryRow(place, { ours: 130e6 }, 130e6).met).toBe(true);
    expect(memoryRow(place, { ours: 130e6 + 1 }, 130e6).met).toBe(false);
  });
});

describe("renderTable()", () => {
  it("marks rows that meet their goal, miss it, or have none", () => {
    const row = { job: "j", measure: "m", ours: "1" };
    const table = renderTable([{ ...row, met: true }, { ...row, met: false }, row]);
    const met = table.split("\n").map((line) => line.split("|").at(-2)?.trim());
    expect(met).toEqual(["met", "--------", "yes", "**no**", ""]);
  });
});

describe("what bench writes down", () => {
  const machine = {
    cpu: "a processor",
    cores: 2,
    memory: "8 GiB",
    system: "linux x64",
    node: "v20.0.0",
    date: "2026-01-02",
    load: "0.50",
  };
  const rows = [{ job: "j", measure: "m", ours: "1 ms" }];
  const commands = ["tare inspect x"];
  const recorded: Recorded = { name: "j", title: "does it", machine, runs: 5, folder: "tmpfs", rows, commands };

  it("renderFigures() has the table, and leaves the command lines to the notes", () => {
    const figures = renderFigures([recorded]);
    expect(figures).toContain(renderTable(rows));
    expect(figures).toContain("2 cores, 8 GiB, linux x64, Node v20.0.0");
    expect(figures).not.toContain("tare inspect x");
  });

  it("renderCommands() has date, processor, runs, load and command lines of every job", () => {
    const where = "2026-01-02, a processor, 5 runs, load average 0.50, files on tmpfs.";
    expect(renderCommands([{ ...recorded, notes: ["one run was slow"] }])).toBe(
      `**j**: does it\n\n${where}\n\n\`\`\`sh\ntare inspect x\n\`\`\`\n\nNote: one run was slow.`,
    );
  });
});

describe("writeFigures()", () => {
  let folder = "";
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "report-"));
  });
  afterEach(() => rm(folder, { recursive: true }));

  it("replaces the text between the markers and nothing else, also the second time", async () => {
    const page = join(folder, "page.md");
    await writeFile(page, `before\n${BEGIN}\nold\n${END}\nafter\n`);
    await writeFigures(page, "first");
    await writeFigures(page, "second");
    expect(await readFile(page, "utf8")).toBe(`before\n${BEGIN}\n\nsecond\n\n${END}\nafter\n`);
  });

  it("refuses a page without the markers", async () => {
    const page = join(folder, "page.md");
    await writeFile(page, `${END}\n${BEGIN}\n`);
    await expect(writeFigures(page, "x")).rejects.toThrow("must hold both marker comments in order");
  });
});
