import { expect, it } from "vitest";
import { nativeEngine } from "../../src/platform/node/engine/native.ts";
import { makeFlipCase, type Region, regionOf, tryFlip } from "./flips.ts";

/** A prime, so that every kind of field is met; `npm run flips` takes every byte. */
const STRIDE = 149;

it(`one flipped byte in ${STRIDE} of a vault gives no wrong plaintext, is found, and is healed`, async () => {
  const flipCase = await makeFlipCase(await nativeEngine());
  const problems: string[] = [];
  const met = new Set<Region>();
  const lastHeaderByte = 1023;
  const offsets = new Set([0, 11, lastHeaderByte, flipCase.bytes.byteLength - 1]);
  for (let offset = 3; offset < flipCase.bytes.byteLength; offset += STRIDE) offsets.add(offset);
  for (const offset of offsets) {
    met.add(regionOf(flipCase.bytes, offset));
    const problem = await tryFlip(flipCase, offset);
    if (problem !== undefined) problems.push(problem);
  }
  expect(problems).toEqual([]);
  expect([...met].sort()).toEqual(["blocks", "extension directory", "header", "manifest", "parity"]);
});
