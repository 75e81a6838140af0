import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { FORMATS } from "./builders/loaded-formats.ts";
import { fixtureNames } from "./support/fixtures.ts";

const root = new URL("..", import.meta.url).pathname;

test.each(FORMATS.map((format) => format.id))(
  "%s has foreign fixtures, runs the format contract and is documented",
  (id) => {
    expect(fixtureNames(id).length).toBeGreaterThan(2);
    expect(existsSync(join(root, "test/fixtures", id, "PROVENANCE.md"))).toBe(true);
    expect(readFileSync(join(root, "src/formats", id, "golden.test.ts"), "utf8")).toContain("formatContract(");
    const page = readFileSync(join(root, "docs/formats", `${id}.md`), "utf8");
    for (const heading of ["Deviations", "Open questions"]) expect(page, id).toContain(heading);
  },
);
