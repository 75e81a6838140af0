import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { FORMATS } from "../src/formats/registry.ts";
import { fixtureNames } from "./support/fixtures.ts";

const root = new URL("..", import.meta.url).pathname;

test.each(FORMATS.map((format) => format.id))(
  "%s has foreign fixtures, runs the format contract and is documented",
  (id) => {
    // What needs a password is in a folder of its own: nothing else could be opened by whoever takes them all.
    const folders = [id, `${id}-sealed`].filter((name) => existsSync(join(root, "test/fixtures", name)));
    expect(folders.flatMap(fixtureNames).length).toBeGreaterThan(2);
    expect(folders.some((name) => existsSync(join(root, "test/fixtures", name, "PROVENANCE.md")))).toBe(true);
    expect(readFileSync(join(root, "src/formats", id, "golden.test.ts"), "utf8")).toContain("formatContract(");
    const page = readFileSync(join(root, "docs/formats", `${id}.md`), "utf8");
    for (const heading of ["Deviations", "Open questions"]) expect(page, id).toContain(heading);
  },
);
