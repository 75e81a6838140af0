import { describe, expect, it, test } from "vitest";
import { NO_EXTRA_KEYS } from "../../../formats/aerovault/manifest/field-reader.ts";
import type { ChunkRecord } from "../../../formats/aerovault/manifest/records.ts";
import { findClashes, findFoldedGroups, foldName, type PlannedFile, planExtractJobs, type SplitNames } from "./plan.ts";

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

test("a long file is cut into parts that together make up the file", () => {
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

test("a chunk that a file repeats is decoded once per job, and jobs stay short", () => {
  const zeros = record("z", 0, 4 * MIB);
  const plan = Array.from({ length: 100 }, (_, i) => ({ record: zeros, start: i * 4 * MIB }));
  const jobs = planExtractJobs([file("zeros", 400 * MIB, plan)]);
  expect(jobs).toHaveLength(50);
  expect(jobs.every(({ records, pieces }) => records.length === 1 && pieces.length === 2)).toBe(true);
});

test("many small files become several jobs", () => {
  const one = record("a", 0, 5000);
  const files = Array.from({ length: 3000 }, (_, i) => file(`f${i}`, 1, [{ record: one, start: -i }]));
  expect(planExtractJobs(files).map((job) => job.files.length)).toEqual([1024, 1024, 952]);
});

describe("names that fold", () => {
  const splitBy =
    (key: (name: string) => string): SplitNames =>
    (_, names) =>
      [...new Set(names.map(key))].map((one) => names.filter((name) => key(name) === one));
  const clashes = (split: SplitNames, files: readonly string[], directories: readonly string[] = []) =>
    findFoldedGroups(files, directories)
      .flatMap((group) => findClashes(group, split))
      .map(({ first, second }) => [first, second]);
  const pairs = (files: readonly string[], directories: readonly string[] = []) =>
    clashes(splitBy(foldName), files, directories);

  it("are pairs by case and by Unicode form, in any folder", () => {
    expect(pairs(["A.txt", "a.txt", "z"])).toEqual([["A.txt", "a.txt"]]);
    expect(pairs(["d/\u00e9", "d/e\u0301"])).toEqual([["d/\u00e9", "d/e\u0301"]]);
    expect(pairs(["D/x", "d/x", "D/y"])).toEqual([["D/x", "d/x"]]);
    expect(pairs(["stra\u00dfe", "STRASSE"])).toEqual([["stra\u00dfe", "STRASSE"]]);
  });

  it("are pairs by invisible characters, and by dots and spaces at the end, in any folder", () => {
    expect(pairs(["a", "a\u200c", "b"])).toEqual([["a", "a\u200c"]]);
    expect(pairs(["\ufeffd/x", "d\u200d/x"])).toEqual([["\ufeffd/x", "d\u200d/x"]]);
    expect(pairs(["a. .", "a"])).toEqual([["a. .", "a"]]);
    expect(pairs(["d./x", "d/x "])).toEqual([["d./x", "d/x "]]);
    expect(pairs(["e\u200c\u0301", "\u00e9"])).toEqual([["e\u200c\u0301", "\u00e9"]]);
  });

  it("are a file and a directory too, but not two directories", () => {
    expect(pairs(["a", "A/x"])).toEqual([["a", "A"]]);
    expect(pairs(["a"], ["A"])).toEqual([["a", "A"]]);
    expect(pairs(["D/x", "d/y"], ["D", "d"])).toEqual([]);
  });

  it("are one if the file system says so, and apart if it does not", () => {
    const files = ["t/D/x", "t/d/X"];
    const asked: [string, readonly string[]][] = [];
    const apart: SplitNames = (folder, names) => {
      asked.push([folder, names]);
      return names.map((name) => [name]);
    };
    expect(pairs(files)).toEqual([files]);
    expect(clashes(apart, files)).toEqual([]);
    // The paths below two separate folders need no check.
    expect(asked).toEqual([["t", ["D", "d"]]]);
  });

  it("are found among the others of a group, if the file system folds less", () => {
    const byCase = splitBy((name) => [...name].map((one) => (one === "\u00df" ? one : one.toLowerCase())).join(""));
    expect(clashes(byCase, ["stra\u00dfe", "strasse", "STRASSE"])).toEqual([["strasse", "STRASSE"]]);
    expect(clashes(byCase, ["stra\u00dfe/a", "strasse/a", "STRASSE/A"])).toEqual([["strasse/a", "STRASSE/A"]]);
    expect(clashes(byCase, ["stra\u00dfe", "strasse", "Stra\u00dfe"], ["STRASSE"])).toEqual([
      ["strasse", "STRASSE"],
      ["stra\u00dfe", "Stra\u00dfe"],
    ]);
    expect(clashes(byCase, ["stra\u00dfe"], ["STRASSE", "strasse"])).toEqual([]);
  });

  it("are checked once each, no matter how many are alike", () => {
    const files = Array.from({ length: 1 << 10 }, (_, i) =>
      Array.from({ length: 10 }, (_, bit) => ((i >> bit) & 1 ? "A" : "a")).join(""),
    );
    let asked = 0;
    const apart: SplitNames = (_, names) => {
      asked += names.length;
      return names.map((name) => [name]);
    };
    expect(clashes(apart, files)).toEqual([]);
    expect(asked).toBe(files.length);
  });

  it("are found in one pass, no matter how deep they are", () => {
    const files = Array.from({ length: 2000 }, (_, i) => `${"d/".repeat(50)}${i}`);
    expect(pairs([...files, `${"d/".repeat(50)}x`, `${"D/".repeat(50)}X`])).toHaveLength(1);
  });
});
