import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

/**
 * The vault format has forty cases with the behaviour that is expected ("row N") and twenty-two findings of audits ("audit N").
 * Each must stand in the name of a test: a case that nobody asks for any more is found here.
 */

const ROOT = new URL("..", import.meta.url).pathname;
/** Where tests of vaults and sidecars are; other formats count rows of their own. */
const FOLDERS = [
  "src/formats/aerovault",
  "src/formats/aerovault1",
  "src/formats/aerovault2",
  "src/formats/aerocorrect",
  "src/operations/correct",
  "src/operations/vault",
  "src/platform/node",
  "src/primitives/chunking",
  "test/attacks",
  "test/cli",
];
/** Of this file: see the last test. */
const OWN = 'test("audit 21: ';

function testNames(): string[] {
  const files = FOLDERS.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".test.ts"))
      .map((name) => join(ROOT, folder, name)),
  );
  return files.flatMap((file) => readFileSync(file, "utf8").match(/["`][^"`\n]*\b(rows?|audit) \d[^"`\n]*["`]/g) ?? []);
}

/** Numbers behind a word in names of tests: "row 3", "rows 13 and 25", "audit 2 and 12". */
function numbersBehind(word: string, names: readonly string[]): Set<number> {
  const numbers = new Set<number>();
  const lists = new RegExp(`\\b${word}s? (\\d+(?:(?:,| and) \\d+)*)`, "g");
  for (const name of names) {
    for (const [, list = ""] of name.matchAll(lists)) {
      for (const number of list.match(/\d+/g) ?? []) numbers.add(Number(number));
    }
  }
  return numbers;
}

function upTo(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i + 1);
}

const names = [...testNames(), OWN];

test("each of the 40 cases of the vault format is the name of a test", () => {
  const found = numbersBehind("row", names);
  expect(upTo(40).filter((number) => !found.has(number))).toEqual([]);
});

test("audit 21: each of the 22 findings of its audits is, too, and the names were really looked at", () => {
  const found = numbersBehind("audit", names);
  expect(upTo(22).filter((number) => !found.has(number))).toEqual([]);
  expect(names.length).toBeGreaterThan(62);
});
