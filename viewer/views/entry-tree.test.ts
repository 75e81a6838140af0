import { expect, test } from "vitest";
import { treeRows } from "./entry-tree.ts";

const file = (path: string) => ({ path, type: "file" as const, size: 1 });
const entries = [file("b/10.txt"), file("a.txt"), file("b/9.txt"), file("b/c/d.txt")];
const shown = (filter: string, ...closed: string[]): string[] =>
  treeRows(entries, { filter, closed: new Set(closed) }).map(({ depth, name }) => `${"-".repeat(depth)}${name}`);

test("unlisted folders come before their contents, numbers sort by value", () => {
  expect(shown("")).toEqual(["a.txt", "b", "-9.txt", "-10.txt", "-c", "--d.txt"]);
});

test("a closed folder hides its contents, a filter gives a list of paths", () => {
  expect(shown("", "b")).toEqual(["a.txt", "b"]);
  expect(shown("D.TXT", "b")).toEqual(["b/c/d.txt"]);
});
