import picocolors from "picocolors";
import { describe, expect, it } from "vitest";
import { formatCount, formatSize, formatSizeBoth, formatTime, formatValue, plural } from "../../src/base/figures.ts";
import { bar, sparkline, stripCells } from "./charts.ts";
import { wantsColors } from "./colors.ts";
import { encodeJson } from "./json.ts";
import { startProgress } from "./progress.ts";
import { renderTable } from "./table.ts";
import { cutEnd, cutMiddle, textWidth, wrap } from "./text-width.ts";

describe("sizes", () => {
  it.each([
    [0, "0 B"],
    [999, "999 B"],
    [1000, "1.00 kB"],
    [999_600, "1.00 MB"],
    [1_240_000_000, "1.24 GB"],
  ])("formatSize(%d)", (bytes, text) => {
    expect(formatSize(bytes)).toBe(text);
  });

  it("show both units, counts, times and values", () => {
    expect(formatSizeBoth(1_240_000_000)).toBe("1.24 GB (1.15 GiB)");
    expect(formatSizeBoth(5120)).toBe("5.12 kB (5,120 bytes)");
    expect([9999, 10_000, 1_235_814_400, 7.1e6].map(formatCount)).toEqual(["9,999", "10.0 k", "1.24 B", "7.10 M"]);
    expect([41.2, 1840, 125_000, 7_260_000].map(formatTime)).toEqual(["41 ms", "1.8 s", "2 min 5 s", "2 h 1 min"]);
    expect([null, 0, 1, 0.123456, 1e-9, -1234567.5].map(formatValue)).toEqual([
      "–",
      "0",
      "1",
      "0.1235",
      "1.000e-9",
      "-1.235e+6",
    ]);
    expect([plural(1, "tensor"), plural(2048, "entry", "entries")]).toEqual(["1 tensor", "2,048 entries"]);
  });
});

describe("text width", () => {
  it("counts cells, not characters", () => {
    expect([textWidth("abc"), textWidth("层.权重"), textWidth("e\u0301")]).toEqual([3, 7, 1]);
  });

  it("cuts to what fits", () => {
    expect(cutEnd("abcdef", 4)).toBe("abc…");
    expect(cutMiddle("model.layers.0.weight", 9)).toBe("mode…ight");
    expect(textWidth(cutMiddle("层层层层层层", 7))).toBeLessThanOrEqual(7);
    expect(wrap("one two three", 7)).toEqual(["one two", "three"]);
  });
});

describe("renderTable()", () => {
  it("aligns, and leaves no white space at the end of a line", () => {
    const columns = [{ title: "n", align: "right" as const }, { title: "name" }];
    expect(
      renderTable(columns, [
        ["1", "a"],
        ["10", "层"],
      ]),
    ).toBe(" n  name\n 1  a\n10  层");
  });

  it("cuts only if a width is given", () => {
    const row = [["x".repeat(40), "y"]];
    const columns = [{ cut: "middle" as const }, {}];
    expect(renderTable(columns, row).split("\n")[0]).toHaveLength(43);
    expect(textWidth(renderTable(columns, row, { width: 20 }))).toBe(20);
  });

  it("puts names below their rows where they would be cut to little, so that none looks like another", () => {
    const columns = [{ align: "right" as const }, {}, { cut: "middle" as const }];
    const names = ["model.layers.0.mlp.up_proj.weight", "model.layers.1.mlp.up_proj.weight"];
    const rows = names.map((name) => ["180 kB", "[704, 128]", name]);
    const lines = renderTable(columns, rows, { width: 40 }).split("\n");
    expect(lines).toEqual([
      "180 kB  [704, 128]",
      "  model.layers.0.mlp.up_proj.weight",
      "180 kB  [704, 128]",
      "  model.layers.1.mlp.up_proj.weight",
    ]);
    expect(renderTable(columns, rows, { width: 60 }).split("\n")).toHaveLength(2);
  });

  it("leaves out a column that may be dropped where the table does not fit", () => {
    const columns = [{}, { narrow: "drop" as const }];
    const row = [["28 tensors", "█".repeat(20)]];
    expect(renderTable(columns, row, { width: 32 })).toHaveLength(32);
    expect(renderTable(columns, row, { width: 31 })).toBe("28 tensors");
  });

  it("pads before it colours", () => {
    const style = picocolors.createColors(true).red;
    expect(
      renderTable(
        [{}, {}],
        [
          [{ text: "a", style }, "b"],
          ["long", "c"],
        ],
      ),
    ).toBe(`${style("a   ")}  b\nlong  c`);
  });
});

describe("bars", () => {
  it("show anything above zero", () => {
    expect([bar(1, 4), bar(0.5, 4), bar(0.0001, 4), bar(0, 4)]).toEqual(["████", "██", "▏", ""]);
    expect(sparkline([0, 1, 8])).toBe(" ▂█");
  });

  it("stripCells() gives each cell to the part that fills most of it", () => {
    const parts = [
      { offset: 0, byteLength: 10 },
      { offset: 10, byteLength: 50 },
      { offset: 80, byteLength: 20 },
    ];
    expect(stripCells(parts, 100, 5)).toEqual([0, 1, 1, -1, 2]);
    expect(stripCells([], 0, 3)).toEqual([-1, -1, -1]);
  });
});

describe("wantsColors()", () => {
  it.each([
    ["always", false, { NO_COLOR: "1" }, true],
    ["never", true, { FORCE_COLOR: "1" }, false],
    [undefined, true, {}, true],
    [undefined, false, {}, false],
    [undefined, true, { NO_COLOR: "1", FORCE_COLOR: "1" }, false],
    [undefined, true, { NO_COLOR: "" }, true],
    [undefined, false, { FORCE_COLOR: "1" }, true],
    [undefined, true, { FORCE_COLOR: "0" }, false],
    [undefined, true, { TERM: "dumb" }, false],
  ] as const)("--color %s, terminal %s, %o", (flag, isTerminal, env, wanted) => {
    expect(wantsColors({ flag, isTerminal, env })).toBe(wanted);
  });
});

describe("encodeJson()", () => {
  it("encodes values that JSON has no form for", () => {
    const value = { nan: Number.NaN, big: 2n ** 63n, bytes: Uint8Array.of(0, 255) };
    expect(encodeJson(value, "compact")).toBe('{"nan":null,"big":"9223372036854775808","bytes":"00ff"}');
  });
});

describe("startProgress()", () => {
  function device(mode: "bar" | "json" | "none") {
    const written: string[] = [];
    const clock = { time: 0 };
    return {
      mode,
      written,
      clock,
      width: 100,
      now: () => clock.time,
      write: (text: string) => void written.push(text),
    };
  }

  it("stays silent for a second, then draws, then clears the line", () => {
    const screen = device("bar");
    const progress = startProgress(screen, { label: "hashing", total: 4000 });
    screen.clock.time = 900;
    progress.add(1000);
    expect(screen.written).toEqual([]);
    screen.clock.time = 2000;
    progress.add(1000);
    expect(screen.written[0]).toContain(
      "hashing  ████████████              50 %  2.00 kB of 4.00 kB  1.00 kB/s  2.0 s left",
    );
    progress.end();
    progress.end();
    expect(screen.written).toHaveLength(2);
    expect(screen.written[1]).toBe("\r\u001b[2K");
  });

  it("writes JSON Lines from the start, with a last line at the end", () => {
    const screen = device("json");
    const progress = startProgress(screen, { label: "hashing", total: 10 });
    progress.add(4);
    progress.add(6);
    screen.clock.time = 100;
    progress.end();
    const lines = screen.written.map((line) => JSON.parse(line));
    expect(lines.map((line) => line.done)).toEqual([4, 10]);
    expect(lines[1]).toEqual({ type: "progress", label: "hashing", done: 10, total: 10, bytesPerSecond: 100 });
  });

  it("does nothing in mode none", () => {
    const screen = device("none");
    const progress = startProgress(screen, { label: "x" });
    screen.clock.time = 5000;
    progress.add(1);
    progress.end();
    expect(screen.written).toEqual([]);
  });
});
