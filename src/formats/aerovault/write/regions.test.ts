import { expect, test } from "vitest";
import { planRegions } from "./regions.ts";

const KIB = 1024;

test("planRegions() without tensors is one region, and none for no bytes", () => {
  expect(planRegions(1000, [])).toEqual([{ offset: 0, byteLength: 1000 }]);
  expect(planRegions(0, [])).toEqual([]);
});

test("planRegions() begins and ends with every tensor of 16 KiB, and keeps padding apart", () => {
  const tensors = [
    { offset: 100, byteLength: 16 * KIB },
    { offset: 100 + 16 * KIB + 28, byteLength: 20 * KIB },
  ];
  expect(planRegions(60 * KIB, tensors)).toEqual([
    { offset: 0, byteLength: 100 },
    { offset: 100, byteLength: 16 * KIB },
    { offset: 100 + 16 * KIB, byteLength: 28 },
    { offset: 128 + 16 * KIB, byteLength: 20 * KIB },
    { offset: 128 + 36 * KIB, byteLength: 24 * KIB - 128 },
  ]);
});

test("planRegions() groups smaller neighbours with the padding between them", () => {
  const tensors = [
    { offset: 0, byteLength: 100 },
    { offset: 128, byteLength: 16 * KIB - 1 },
    { offset: 32 * KIB, byteLength: 16 * KIB },
  ];
  expect(planRegions(48 * KIB, tensors)).toEqual([
    { offset: 0, byteLength: 127 + 16 * KIB },
    { offset: 127 + 16 * KIB, byteLength: 16 * KIB - 127 },
    { offset: 32 * KIB, byteLength: 16 * KIB },
  ]);
});

test("planRegions() joins tensors that share bytes and leaves out those beyond the file", () => {
  const tensors = [
    { offset: 50 * KIB, byteLength: 20 * KIB },
    { offset: 60 * KIB, byteLength: 20 * KIB },
    { offset: 90 * KIB, byteLength: 20 * KIB },
    { offset: 70 * KIB, byteLength: 0 },
  ];
  expect(planRegions(100 * KIB, tensors)).toEqual([
    { offset: 0, byteLength: 50 * KIB },
    { offset: 50 * KIB, byteLength: 30 * KIB },
    { offset: 80 * KIB, byteLength: 20 * KIB },
  ]);
});
