import { describe, expect, it, test } from "vitest";
import { NO_EXTRA_KEYS } from "../../formats/aerovault/field-reader.ts";
import type { ChunkRecord } from "../../formats/aerovault/manifest.ts";
import { areFolded, findFoldedPairs, foldName, type PlannedFile, planExtractJobs } from "./extract-plan.ts";

const MIB = 1 << 20;

function record(id: string, dataOffset: number, plaintextLen: number): ChunkRecord {
  const own = { id, blockIndex: 0, cipherHash: "", storedRaw: false, extra: NO_EXTRA_KEYS };
  return { ...own, dataOffset, blockLen: 1, plaintextLen, compressedLen: 1 };
}

function file(target: string, size: number, plan: PlannedFile<string>["plan"]): PlannedFile<string> {
  return { target, size, plan };
}

test("files of one pack share a job, and each chunk is decoded once", () => {
  const [first, second] = [record("a", 0, 100), record("b", 200, 50)];
  const jobs = planExtractJobs([
    file("late", 30, [{ record: second, start: -20 }]),
    file("across", 40, [
      { record: first, start: -80 },
      { record: second, start: 20 },
    ]),
    file("early", 80, [{ record: first, start: 0 }]),
    file("empty", 0, []),
  ]);
  expect(jobs).toHaveLength(1);
  expect(jobs[0]?.records.map(({ id }) => id)).toEqual(["a", "b"]);
  expect(jobs[0]?.files.map(({ target }) => target)).toEqual(["across", "early", "empty", "late"]);
  expect(jobs[0]?.pieces).toEqual([
    { chunk: 0, file: 0, from: 80, byteLength: 20, at: 0 },
    { chunk: 0, file: 1, from: 0, byteLength: 80, at: 0 },
    { chunk: 1, file: 0, from: 0, byteLength: 20, at: 20 },
    { chunk: 1, file: 3, from: 20, byteLength: 30, at: 0 },
  ]);
});

test("a long file is cut into parts that together are the file", () => {
  const records = Array.from({ length: 40 }, (_, i) => record(`c${i}`, i * MIB, MIB));
  const plan = records.map((one, i) => ({ record: one, start: i * MIB }));
  const jobs = planExtractJobs([file("long", 40 * MIB - 5, plan)]);
  expect(jobs).toHaveLength(5);
  expect(new Set(jobs.map(({ extent }) => extent))).toEqual(new Set(["part"]));
  let position = 0;
  for (const piece of jobs.flatMap(({ pieces }) => pieces)) {
    expect(piece.at).toBe(position);
    position += piece.byteLength;
  }
  expect(position).toBe(40 * MIB - 5);
});

test("a chunk that a file repeats is decoded once a job, and jobs stay short", () => {
  const zeros = record("z", 0, 4 * MIB);
  const plan = Array.from({ length: 100 }, (_, i) => ({ record: zeros, start: i * 4 * MIB }));
  const jobs = planExtractJobs([file("zeros", 400 * MIB, plan)]);
  expect(jobs).toHaveLength(50);
  expect(jobs.every(({ records, pieces }) => records.length === 1 && pieces.length === 2)).toBe(true);
});

test("many small files are several jobs", () => {
  const one = record("a", 0, 5000);
  const files = Array.from({ length: 3000 }, (_, i) => file(`f${i}`, 1, [{ record: one, start: -i }]));
  expect(planExtractJobs(files).map((job) => job.files.length)).toEqual([1024, 1024, 952]);
});

describe("names that fold", () => {
  const fold = (_: string, a: string, b: string): boolean => foldName(a) === foldName(b);
  const pairs = (files: readonly string[], directories: readonly string[] = []) =>
    findFoldedPairs(files, directories).map(({ first, second }) => [first, second]);

  it("are pairs by case and by Unicode form, in any folder", () => {
    expect(pairs(["A.txt", "a.txt", "z"])).toEqual([["A.txt", "a.txt"]]);
    expect(pairs(["d/\u00e9", "d/e\u0301"])).toEqual([["d/\u00e9", "d/e\u0301"]]);
    expect(pairs(["D/x", "d/x", "D/y"])).toEqual([["D/x", "d/x"]]);
    expect(pairs(["stra\u00dfe", "STRASSE"])).toEqual([["stra\u00dfe", "STRASSE"]]);
  });

  it("are a file and a directory too, but not two directories", () => {
    expect(pairs(["a", "A/x"])).toEqual([["a", "A"]]);
    expect(pairs(["a"], ["A"])).toEqual([["a", "A"]]);
    expect(pairs(["D/x", "d/y"], ["D", "d"])).toEqual([]);
  });

  it("are one where the file system says so, and apart where it does not", () => {
    const pair = { first: "t/D/x", second: "t/d/X" };
    const asked: string[][] = [];
    const apart = (folder: string, a: string, b: string): boolean => {
      asked.push([folder, a, b]);
      return false;
    };
    expect(areFolded(pair, fold)).toBe(true);
    expect(areFolded(pair, apart)).toBe(false);
    // What lies below folders that are two need not be asked.
    expect(asked).toEqual([["t", "D", "d"]]);
  });

  it("are looked for in one pass, however deep they are", () => {
    const files = Array.from({ length: 2000 }, (_, i) => `${"d/".repeat(50)}${i}`);
    expect(pairs([...files, `${"d/".repeat(50)}x`, `${"D/".repeat(50)}X`])).toHaveLength(1);
  });
});
