import { expect, onTestFinished, test, vi } from "vitest";
import { NO_EXTRA_KEYS } from "../manifest/field-reader.ts";
import type { ManifestEntry } from "../manifest/records.ts";
import { directoryEntry, EntryTree } from "./entry-tree.ts";

const OLD = "2026-01-01T00:00:00Z";
const NOW = "2026-06-17T00:00:00Z";

function file(path: string, ids: readonly string[] = []): ManifestEntry {
  return { path, size: 1, modified: OLD, isDir: false, chunks: ids, extra: NO_EXTRA_KEYS };
}

function paths(tree: EntryTree): string[] {
  return tree.sorted().map(({ path, isDir }) => (isDir ? `${path}/` : path));
}

function tree(...entries: ManifestEntry[]): EntryTree {
  return new EntryTree(entries, "test.aerovault");
}

test("makeDirectory() makes missing parents, once", () => {
  const made = tree();
  expect(made.makeDirectory("a/b/c", NOW)).toBe(3);
  expect(made.makeDirectory("a/b", NOW)).toBe(0);
  expect(paths(made)).toEqual(["a/", "a/b/", "a/b/c/"]);
});

test("put() replaces a file, never a directory, and puts nothing below a file", () => {
  const edited = tree(file("f", ["1"]), file("d/x"));
  expect(edited.put(file("f", ["2"]))?.chunks).toEqual(["1"]);
  expect(() => edited.put(file("d"))).toThrow(expect.objectContaining({ code: "usage/vault.exists" }));
  expect(() => edited.put(file("f/below"))).toThrow(expect.objectContaining({ code: "usage/vault.not-a-directory" }));
  expect(() => edited.put(directoryEntry("f", NOW))).toThrow(
    expect.objectContaining({ code: "usage/vault.not-a-directory" }),
  );
  expect(paths(edited)).toEqual(["d/x", "f"]);
});

test.each(["", "/a", "a//b", "a/../b", "./a", "a\\b", "C:x", "a:b", "a\0", " a", "a "])(
  "put() refuses the path %j, because a vault with it could not be opened",
  (path) => {
    expect(() => tree().put(file(path))).toThrow(expect.objectContaining({ code: "usage/vault.path" }));
  },
);

test.each(["a..b", "..a", "…", "con", "a/ b"])("put() stores %j", (path) => {
  const edited = tree();
  edited.put(file(path));
  expect(edited.get(path)?.path).toBe(path);
});

test("move() moves everything below and updates the times", () => {
  const edited = tree(directoryEntry("d", OLD), file("d/a"), file("d/e/b"), file("dd"));
  edited.move("d", "new/place", NOW);
  expect(paths(edited)).toEqual(["dd", "new/", "new/place/", "new/place/a", "new/place/e/b"]);
  expect(edited.get("new/place/a")?.modified).toBe(NOW);
  expect(edited.get("dd")?.modified).toBe(OLD);
});

test("move() to the same path changes nothing", () => {
  const edited = tree(file("a"));
  edited.move("a", "a", NOW);
  expect(edited.get("a")?.modified).toBe(OLD);
});

test("move() and copy() refuse to go into themselves, onto others, and from a missing path", () => {
  const edited = tree(file("d/a"), file("b"));
  const before = paths(edited);
  expect(() => edited.move("d", "d/x", NOW)).toThrow(expect.objectContaining({ code: "usage/vault.into-itself" }));
  expect(() => edited.copy("d", "d", NOW)).toThrow(expect.objectContaining({ code: "usage/vault.into-itself" }));
  expect(() => edited.move("b", "d", NOW)).toThrow(expect.objectContaining({ code: "usage/vault.exists" }));
  expect(() => edited.copy("b", "d/a", NOW)).toThrow(expect.objectContaining({ code: "usage/vault.exists" }));
  expect(() => edited.move("d", "b/x", NOW)).toThrow(expect.objectContaining({ code: "usage/vault.not-a-directory" }));
  expect(() => edited.move("nothing", "x", NOW)).toThrow(expect.objectContaining({ code: "usage/entry-not-found" }));
  expect(paths(edited)).toEqual(before);
});

test("copy() shares chunks", () => {
  const edited = tree(file("a", ["1", "2"]));
  expect(edited.copy("a", "x/b", NOW)).toBe(1);
  expect(edited.get("x/b")?.chunks).toEqual(["1", "2"]);
  expect([...edited.referenced()]).toEqual(["1", "2"]);
});

test("remove() removes all or nothing", () => {
  const edited = tree(directoryEntry("d", OLD), file("d/a"), file("b"), directoryEntry("empty", OLD));
  expect(() => edited.remove(["b", "d"], "empty")).toThrow(expect.objectContaining({ code: "usage/vault.not-empty" }));
  expect(() => edited.remove(["b", "no"], "recursive")).toThrow(
    expect.objectContaining({ code: "usage/entry-not-found" }),
  );
  expect(edited.size).toBe(4);
  expect(edited.remove(["empty", "d", "d/a"], "recursive")).toBe(3);
  expect(paths(edited)).toEqual(["b"]);
});

test("savepoint() brings back what was there, for the price of what was changed", () => {
  const edited = tree(file("f", ["1"]), file("d/e/a"), ...Array.from({ length: 1000 }, (_, i) => file(`many/${i}`)));
  const before = paths(edited);
  const set = vi.spyOn(Map.prototype, "set");
  const listed = [vi.spyOn(Map.prototype, "values"), vi.spyOn(Map.prototype, "entries")];
  onTestFinished(() => {
    for (const spy of [set, ...listed]) spy.mockRestore();
  });
  const outer = edited.savepoint();
  edited.put(file("f", ["2"]));
  edited.makeDirectory("x/y", NOW);
  const inner = edited.savepoint();
  edited.remove(["f"], "empty");
  edited.put(file("f/now/a/directory"));
  inner.restore();
  expect([edited.get("f")?.chunks, edited.kindOf("f/now"), edited.kindOf("x/y")]).toEqual([
    ["2"],
    undefined,
    "directory",
  ]);
  const kept = edited.savepoint();
  edited.move("x/y", "z", NOW);
  kept.keep();
  outer.restore();
  expect([set.mock.calls.length < 50, listed.map(({ mock }) => mock.calls.length)]).toEqual([true, [0, 0]]);
  for (const spy of [set, ...listed]) spy.mockRestore();
  expect([paths(edited), edited.get("f")?.chunks, edited.kindOf("x")]).toEqual([before, ["1"], undefined]);
  // What was kept cannot be undone any more.
  edited.remove(["f"], "empty");
  edited.savepoint().restore();
  expect(edited.get("f")).toBeUndefined();
});

test("kindOf() knows directories that only their contents imply, as long as these exist", () => {
  const edited = tree(file("a/b/c"));
  expect([edited.kindOf("a"), edited.kindOf("a/b"), edited.kindOf("a/b/c")]).toEqual([
    "directory",
    "directory",
    "file",
  ]);
  edited.remove(["a/b/c"], "empty");
  expect(edited.kindOf("a")).toBeUndefined();
});

test("no verb makes a path that readers would refuse", () => {
  const deep = (count: number): string => Array.from({ length: count }, () => "d").join("/");
  const edited = tree(file("a/b"), file("f"));
  const refused = expect.objectContaining({ code: "usage/vault.path" });
  edited.put(file(deep(256)));
  expect(() => edited.put(file(deep(257)))).toThrow(refused);
  expect(() => edited.put(file("n".repeat(4097)))).toThrow(refused);
  expect(() => edited.makeDirectory(deep(257), NOW)).toThrow(refused);
  // The destination is short enough, but not the paths that move with it.
  expect(() => edited.move("a", `e/${deep(255)}`, NOW)).toThrow(refused);
  expect(() => edited.copy("a", `e/${deep(255)}`, NOW)).toThrow(refused);
  edited.copy("f", `e/${deep(255)}`, NOW);
  expect(edited.get("a/b")).toBeDefined();
});
