import { describe, expect, it } from "vitest";
import { parseFlags } from "./flags.ts";

const TABLE = {
  json: { kind: "switch", summary: "" },
  output: { kind: "path", short: "o", value: "PATH", summary: "" },
  header: { kind: "list", value: "K:V", summary: "" },
  rows: { kind: "rows", value: "A:B", summary: "" },
  "max-size": { kind: "size", value: "SIZE", summary: "" },
  color: { kind: "choice", choices: ["auto", "never"], summary: "" },
} as const;

const parse = (...args: string[]) => parseFlags(args, TABLE, "ls");

describe("parseFlags()", () => {
  it("reads values after a space, after =, and after a short flag", () => {
    expect(parse("a", "--max-size", "1kB", "--color=never", "-o", "x", "b")).toEqual({
      flags: { "max-size": 1000, color: "never", output: "x" },
      positionals: ["a", "b"],
    });
    expect(parse("-ox").flags.output).toBe("x");
  });

  it("collects repeated lists and lets the last of the others win", () => {
    const { flags } = parse("--header", "A: 1", "--header=B: 2", "-o", "x", "-o", "y");
    expect(flags.header).toEqual(["A: 1", "B: 2"]);
    expect(flags.output).toBe("y");
  });

  it("takes values that begin with a dash", () => {
    expect(parse("--rows", "-3:").flags.rows).toEqual({ start: -3, end: undefined });
    expect(parse("-o", "-").flags.output).toBe("-");
  });

  it("takes everything after -- as arguments", () => {
    expect(parse("--json", "--", "--json", "-o")).toEqual({ flags: { json: true }, positionals: ["--json", "-o"] });
  });

  it("suggests the nearest flag for an unknown one", () => {
    expect(() => parse("--jsn")).toThrow(
      expect.objectContaining({ code: "usage/unknown-flag", hint: "Did you mean --json?" }),
    );
    expect(() => parse("--frobnicate")).toThrow(
      expect.objectContaining({ hint: expect.stringContaining("tare ls --help") }),
    );
    expect(() => parse("-z")).toThrow(expect.objectContaining({ code: "usage/unknown-flag" }));
    expect(() => parse("--constructor")).toThrow(expect.objectContaining({ code: "usage/unknown-flag" }));
  });

  it("refuses missing, superfluous and swallowed values", () => {
    expect(() => parse("--max-size")).toThrow(/without a value/);
    expect(() => parse("--output=")).toThrow(/without a value/);
    expect(() => parse("--json=yes")).toThrow(/takes none/);
    expect(() => parse("--output", "--json")).toThrow(/without a value/);
    expect(() => parse("--color", "green")).toThrow(/must be auto or never/);
  });
});
