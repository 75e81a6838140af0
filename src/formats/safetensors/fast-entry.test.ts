import fc from "fast-check";
import { expect, test } from "vitest";
import { atOnce } from "../../base/turns.ts";
import { UniqueNames } from "./fast-entry.ts";
import { type DTypeRow, dtypeRow } from "./layout.ts";

const ROWS = ["F32", "BF16", "U8"].map((dtype) => dtypeRow(dtype) as DTypeRow);

/** Lays out the names as in a header, and searches them. */
function findRepeated(names: readonly (readonly [name: string, row: number])[]): number {
  const text = names.map(([name]) => `"${name}"`).join(",");
  const unique = new UniqueNames(text);
  let start = 1;
  names.forEach(([name, row], index) => {
    unique.note(index, start, start + name.length, ROWS[row] as DTypeRow);
    start += name.length + 3;
  });
  return atOnce(unique.findRepeated(names.map(([name]) => ({ name }))));
}

test("findRepeated() finds a repeated name exactly if there is one, in any order and any runs", () => {
  const name = fc.stringMatching(/^[ab]{0,4}$/);
  const list = fc.array(fc.tuple(name, fc.nat({ max: 2 })), { maxLength: 12 });
  fc.assert(
    fc.property(list, fc.boolean(), (names, sorted) => {
      if (sorted) names.sort(([a, x], [b, y]) => x - y || (a < b ? -1 : 1));
      const at = findRepeated(names);
      const isRepeated = new Set(names.map(([text]) => text)).size < names.length;
      expect(at >= 0).toBe(isRepeated);
      if (at >= 0) expect(names.filter(([text]) => text === names[at]?.[0]).length).toBeGreaterThan(1);
    }),
    { numRuns: 500 },
  );
});

test("findRepeated() finds a name of a short run in a long one", () => {
  const long = Array.from({ length: 100 }, (_, i) => [`n${String(i).padStart(3, "0")}`, 1] as const);
  expect(findRepeated([["a", 0], ...long, ["z", 2]])).toBe(-1);
  expect(findRepeated([...long, ["n042", 2]])).toBe(100);
  expect(findRepeated([["n099", 0], ...long])).toBe(0);
  expect(findRepeated([["a", 0], ...long, ["a", 2]])).toBe(101);
});
