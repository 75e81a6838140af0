import { describe, expect, it } from "vitest";
import { renderValues, type ValueColumn } from "./listing.ts";

interface Row {
  readonly size: number;
  readonly time: number;
  readonly name: string;
}

describe("renderValues()", () => {
  const asked: number[] = [];
  const size: ValueColumn<Row> = {
    align: "right",
    value: (row) => row.size,
    text: (value) => {
      asked.push(value);
      return value < 0 ? "–" : `${value} B`;
    },
  };
  const time: ValueColumn<Row> = {
    value: (row) => row.time,
    text: (value) => (Number.isNaN(value) ? "" : `t${value}`),
  };
  const render = (rows: readonly Row[]): string[] => [...renderValues(rows, [size, time], ({ name }) => name)];

  it("pads every column to its longest cell, even if that comes later", () => {
    const rows = [
      { size: 1, time: Number.NaN, name: "a" },
      { size: -1, time: 12, name: "b/" },
      { size: 1000, time: 3, name: "ä c" },
    ];
    expect(render(rows)).toEqual(["   1 B       a\n     –  t12  b/\n1000 B  t3   ä c"]);
  });

  it("has an empty text for no rows", () => {
    expect(render([])).toEqual([""]);
  });

  it("formats a value once, and gives long output in pieces", () => {
    asked.length = 0;
    const rows = Array.from({ length: 1201 }, (_, i) => ({ size: i % 3, time: 0, name: `file-${i}` }));
    const pieces = render(rows);
    expect(asked).toEqual([0, 1, 2]);
    expect(pieces.length).toBe(3);
    expect(pieces.join("")).toBe(rows.map((row) => `${row.size} B  t0  ${row.name}`).join("\n"));
  });
});
