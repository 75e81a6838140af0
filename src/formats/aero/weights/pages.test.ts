import { expect, it } from "vitest";
import { expectBytes, patternBytes } from "../../../../test/contracts/source-contract.ts";
import { type Bytes, concatBytes } from "../../../base/bytes.ts";
import { PageAssembly } from "./pages.ts";

const PAGE = 100;

/** The runs that result from pieces of these lengths, repeated. */
function assemble(all: Bytes, lengths: readonly number[]): { runs: Bytes[]; copied: number } {
  const assembly = new PageAssembly(PAGE, "s");
  const runs: Bytes[] = [];
  let copied = 0;
  let position = 0;
  for (let start = 0, i = 0; start < all.byteLength; i++) {
    const piece = all.subarray(start, start + (lengths[i % lengths.length] as number));
    start += piece.byteLength;
    for (const run of assembly.add(piece, all.byteLength - position)) {
      if (run.buffer !== all.buffer) copied++;
      position += run.byteLength;
      runs.push(run.slice());
    }
  }
  return { runs, copied };
}

it.each([
  { lengths: [1000], pages: 1050, copied: 0 },
  { lengths: [100], pages: 1050, copied: 0 },
  { lengths: [300, 200], pages: 1000, copied: 0 },
  { lengths: [250], pages: 1050, copied: 2 },
  { lengths: [1], pages: 1050, copied: 11 },
  { lengths: [7, 393, 200], pages: 1234, copied: 3 },
  { lengths: [2000], pages: 30, copied: 0 },
])("pieces of $lengths bytes give whole pages of $pages bytes", ({ lengths, pages, copied }) => {
  const all = patternBytes(pages);
  const found = assemble(all, lengths);
  expectBytes(concatBytes(found.runs), all);
  for (const run of found.runs.slice(0, -1)) expect(run.byteLength % PAGE).toBe(0);
  expect(found.copied).toBe(copied);
});
