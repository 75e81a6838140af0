import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { collectInputs, fileIdentity, type TreeOptions } from "./vault-tree.ts";

let folder: string;
const notes: string[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tare-tree-"));
  notes.length = 0;
  mkdirSync(join(folder, "t/sub/empty"), { recursive: true });
  writeFileSync(join(folder, "t/a.txt"), "a");
  writeFileSync(join(folder, "t/sub/b.bin"), "bb");
});

afterEach(() => rmSync(folder, { recursive: true }));

function collect(paths: readonly string[], own: Partial<TreeOptions> = {}): string[] {
  const options: TreeOptions = {
    to: "",
    include: [],
    exclude: [],
    links: "refuse",
    vault: undefined,
    onNote: (text) => notes.push(text),
    openFile: () => Promise.reject(new Error("nothing is opened here")),
    ...own,
  };
  const inputs = collectInputs(
    paths.map((path) => join(folder, path)),
    options,
  );
  return inputs.map(({ kind, path }) => (kind === "directory" ? `${path}/` : path));
}

test("a folder is stored under its name, with empty folders", () => {
  expect(collect(["t"])).toEqual(["t/", "t/a.txt", "t/sub/", "t/sub/b.bin", "t/sub/empty/"]);
});

test("PATH/. stands for what is inside, and --to puts it elsewhere", () => {
  expect(collectInputs([`${folder}/t/.`], { ...silent(), to: "x/y" }).map(({ path }) => path)).toEqual([
    "x/y/a.txt",
    "x/y/sub",
    "x/y/sub/b.bin",
    "x/y/sub/empty",
  ]);
  expect(collect(["t/sub"], { to: "x" })).toEqual(["x/sub/", "x/sub/b.bin", "x/sub/empty/"]);
});

test("--exclude leaves out a folder with all below, --include takes only what matches", () => {
  expect(collect(["t"], { exclude: ["t/sub"] })).toEqual(["t/", "t/a.txt"]);
  expect(collect(["t"], { include: ["*.bin"] })).toEqual(["t/sub/b.bin"]);
});

test("time and permissions are kept to the nanosecond that the system gives", () => {
  chmodSync(join(folder, "t/a.txt"), 0o751);
  utimesSync(join(folder, "t/a.txt"), 0, 1_700_000_000.25);
  const [input] = collectInputs([join(folder, "t/a.txt")], silent());
  expect(input).toMatchObject({ mode: 0o751, mtime: "2023-11-14T22:13:20.25Z", path: "a.txt", size: 1 });
});

test("a link to a file is stored as the file and said, a link to a folder only with --follow", () => {
  symlinkSync(join(folder, "t/a.txt"), join(folder, "t/link"));
  expect(collect(["t"])).toContain("t/link");
  expect(notes).toEqual([expect.stringContaining("is a link")]);
  symlinkSync(join(folder, "t/sub"), join(folder, "t/zlink"));
  expect(() => collect(["t"])).toThrow(expect.objectContaining({ code: "usage/vault.link" }));
  expect(collect(["t"], { links: "follow" })).toContain("t/zlink/b.bin");
});

test("links that lead round in a circle end", () => {
  symlinkSync(join(folder, "t"), join(folder, "t/sub/up"));
  expect(() => collect(["t"], { links: "follow" })).toThrow(expect.objectContaining({ code: "usage/vault.link" }));
});

test("row 34: a dangling link, a pipe and a missing file are errors", () => {
  expect(() => collect(["missing"])).toThrow(expect.objectContaining({ code: "source/not-found" }));
  symlinkSync("nowhere", join(folder, "t/dangling"));
  expect(() => collect(["t"])).toThrow(expect.objectContaining({ code: "source/not-found" }));
  rmSync(join(folder, "t/dangling"));
  execFileSync("mkfifo", [join(folder, "t/pipe")]);
  expect(() => collect(["t"])).toThrow(expect.objectContaining({ code: "usage/not-a-file" }));
});

test.each([" report.txt", "report.txt ", "back\\slash"])(
  "row 9: the name %j is an error, never changed in silence",
  (name) => {
    writeFileSync(join(folder, name), "x");
    expect(() => collect([name])).toThrow(expect.objectContaining({ code: "usage/vault.path" }));
  },
);

test("a name that is not UTF-8 is an error", () => {
  writeFileSync(Buffer.concat([Buffer.from(`${folder}/t/bad-`), Buffer.from([0xff])]), "x");
  expect(() => collect(["t"])).toThrow(expect.objectContaining({ code: "usage/vault.path" }));
});

test("row 34: folders deeper than 100 levels are an error, never dropped", () => {
  mkdirSync(join(folder, "deep", ...Array.from({ length: 100 }, () => "d")), { recursive: true });
  expect(collect(["deep"])).toHaveLength(101);
  mkdirSync(join(folder, "deep", ...Array.from({ length: 101 }, () => "d")), { recursive: true });
  expect(() => collect(["deep"])).toThrow(expect.objectContaining({ code: "limit/vault.depth" }));
});

test.runIf(process.platform === "linux")("a file whose length is given as 0 is read to its end", async () => {
  const [input] = collectInputs(["/proc/self/status"], silent());
  expect(input).toMatchObject({ kind: "stream", path: "status" });
  const pieces: Uint8Array[] = [];
  if (input?.kind === "stream") for await (const piece of input.pieces()) pieces.push(piece);
  expect(Buffer.concat(pieces).toString()).toMatch(/^Name:.*\n(.*\n)+$/);
  writeFileSync(join(folder, "empty"), "");
  expect(collectInputs([join(folder, "empty")], silent())).toMatchObject([{ kind: "file", size: 0 }]);
});

test("the vault itself is left out of a tree that holds it", () => {
  const vault = join(folder, "t/v.aerovault");
  writeFileSync(vault, "v");
  expect(collect(["t"], { vault: fileIdentity(vault) })).not.toContain("t/v.aerovault");
  expect(notes).toEqual([expect.stringContaining("the vault itself")]);
});

function silent(): TreeOptions {
  const openFile = (): Promise<never> => Promise.reject(new Error("nothing is opened here"));
  return { to: "", include: [], exclude: [], links: "refuse", vault: undefined, onNote: () => undefined, openFile };
}
