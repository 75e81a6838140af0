import { execFileSync } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { fileInput, TestVault } from "../../../../../test/builders/vault.ts";
import { makeXorshift } from "../../../../../test/builders/vault-content.ts";
import { type Bytes, equalBytes } from "../../../../base/bytes.ts";
import { nativeEngine } from "../../engine/native.ts";
import { filesBeside } from "../../files/output-place.ts";
import { identityOf } from "../../files/source.ts";
import { collectInputs, formatTime, openVaultInput, ownFilesOf, type TreeOptions } from "./inputs.ts";

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
    paths.map((path) => `${folder}/${path}`),
    options,
  );
  return inputs.map(({ kind, path }) => (kind === "directory" ? `${path}/` : path));
}

test("a path may have slashes and dots in any number", () => {
  const tree = ["t/", "t/a.txt", "t/sub/", "t/sub/b.bin", "t/sub/empty/"];
  for (const end of ["/", "//"]) expect(collect([`t${end}`])).toEqual(tree);
  for (const end of ["/.", "//./", "/./."]) expect(collect([`t${end}`])).toHaveLength(tree.length - 1); // what is inside
  // An end that is none of slashes and dots was tried in each way to cut the slashes before it.
  expect(collect([`t${"/".repeat(200)}a.txt`])).toEqual(["a.txt"]);
});

test("a folder is stored under its name, with empty folders", () => {
  expect(collect(["t"])).toEqual(["t/", "t/a.txt", "t/sub/", "t/sub/b.bin", "t/sub/empty/"]);
});

test("PATH/. means the contents of the folder, and --to puts them elsewhere", () => {
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

test("time and permissions are kept, to the nanosecond if the system has it", () => {
  chmodSync(join(folder, "t/a.txt"), 0o751);
  utimesSync(join(folder, "t/a.txt"), 0, 1_700_000_000.25);
  const [input] = collectInputs([join(folder, "t/a.txt")], silent());
  expect(input).toMatchObject({ mode: 0o751, mtime: "2023-11-14T22:13:20.25Z", path: "a.txt", size: 1 });
});

test("a time that RFC 3339 cannot express is left out", () => {
  expect(formatTime(1_700_000_000_250_000_000n)).toBe("2023-11-14T22:13:20.25Z");
  expect(formatTime(-1n)).toBe("1969-12-31T23:59:59.999999999Z");
  for (const seconds of [253_402_300_800n, 8_640_000_000_001n, -62_167_219_201n])
    expect(formatTime(seconds * 1_000_000_000n)).toBeUndefined();
});

test("a link to a file is stored as the file with a note, a link to a folder only with --follow", () => {
  symlinkSync(join(folder, "t/a.txt"), join(folder, "t/link"));
  expect(collect(["t"])).toContain("t/link");
  expect(notes).toEqual([expect.stringContaining("is a link")]);
  symlinkSync(join(folder, "t/sub"), join(folder, "t/zlink"));
  expect(() => collect(["t"])).toThrow(expect.objectContaining({ code: "usage/vault.link" }));
  expect(collect(["t"], { links: "follow" })).toContain("t/zlink/b.bin");
});

test("a link to a folder that is named needs --follow like one that is found, however its name ends", () => {
  symlinkSync(join(folder, "t/sub"), join(folder, "named"));
  symlinkSync(join(folder, "t/a.txt"), join(folder, "a-link"));
  for (const path of ["named", "named/", "named/.", "named//./"]) {
    expect(() => collect([path]), path).toThrow(
      expect.objectContaining({ code: "usage/vault.link", hint: expect.stringContaining("the option follow") }),
    );
  }
  expect(collect(["named"], { links: "follow" })).toEqual(["named/", "named/b.bin", "named/empty/"]);
  expect(collect(["named/."], { links: "follow" })).toEqual(["b.bin", "empty/"]);
  expect(collect(["named/b.bin", "a-link"])).toEqual(["b.bin", "a-link"]);
  expect(notes).toEqual([expect.stringContaining("is a link")]);
});

test("a circle of links ends", () => {
  symlinkSync(join(folder, "t"), join(folder, "t/sub/up"));
  expect(() => collect(["t"], { links: "follow" })).toThrow(expect.objectContaining({ code: "usage/vault.link" }));
});

test("a dangling link, a pipe and a missing file are errors", () => {
  expect(() => collect(["missing"])).toThrow(expect.objectContaining({ code: "source/not-found" }));
  symlinkSync("nowhere", join(folder, "t/dangling"));
  expect(() => collect(["t"])).toThrow(expect.objectContaining({ code: "source/not-found" }));
  rmSync(join(folder, "t/dangling"));
  execFileSync("mkfifo", [join(folder, "t/pipe")]);
  expect(() => collect(["t"])).toThrow(expect.objectContaining({ code: "usage/not-a-file" }));
});

test.each([" report.txt", "report.txt ", "back\\slash"])(
  "the name %j is an error, never changed in silence",
  (name) => {
    writeFileSync(join(folder, name), "x");
    expect(() => collect([name])).toThrow(expect.objectContaining({ code: "usage/vault.path" }));
  },
);

test("a name that is not UTF-8 is an error", () => {
  writeFileSync(Buffer.concat([Buffer.from(`${folder}/t/bad-`), Buffer.from([0xff])]), "x");
  expect(() => collect(["t"])).toThrow(expect.objectContaining({ code: "usage/vault.path" }));
});

test("folders deeper than 100 levels are an error, never dropped", () => {
  mkdirSync(join(folder, "deep", ...Array.from({ length: 100 }, () => "d")), { recursive: true });
  expect(collect(["deep"])).toHaveLength(101);
  mkdirSync(join(folder, "deep", ...Array.from({ length: 101 }, () => "d")), { recursive: true });
  expect(() => collect(["deep"])).toThrow(expect.objectContaining({ code: "limit/vault.depth" }));
});

test.runIf(process.platform === "linux")("a file with a stated length of 0 is read to its end", async () => {
  const [input] = collectInputs(["/proc/self/status"], silent());
  expect(input).toMatchObject({ kind: "stream", path: "status" });
  const pieces: Uint8Array[] = [];
  if (input?.kind === "stream") for await (const piece of input.pieces()) pieces.push(piece);
  expect(Buffer.concat(pieces).toString()).toMatch(/^Name:.*\n(.*\n)+$/);
  writeFileSync(join(folder, "empty"), "");
  expect(collectInputs([join(folder, "empty")], silent())).toMatchObject([{ kind: "file", size: 0 }]);
});

test("the vault itself is left out of a tree that contains it", () => {
  const vault = join(folder, "t/v.aerovault");
  writeFileSync(vault, "v");
  expect(collect(["t"], { vault: ownFilesOf(vault) })).not.toContain("t/v.aerovault");
  expect(notes).toEqual([expect.stringContaining("the vault itself")]);
});

function silent(): TreeOptions {
  const openFile = (): Promise<never> => Promise.reject(new Error("nothing is opened here"));
  return { to: "", include: [], exclude: [], links: "refuse", vault: undefined, onNote: () => undefined, openFile };
}

const engine = await nativeEngine();

describe("openVaultInput()", () => {
  const CONTENT = makeXorshift(4n, 400_000);
  let folder: string;

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "tare-input-"));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  /** Adds a file to a new vault, and runs `happens` once the file is open. */
  async function addWhile(
    name: string,
    happens: (path: string) => void,
  ): Promise<{ readonly added: Promise<unknown>; readonly vault: TestVault; readonly before: Bytes }> {
    const path = join(folder, name);
    writeFileSync(path, CONTENT);
    const identity = identityOf(statSync(path, { bigint: true }));
    const vault = new TestVault({ engine });
    await vault.create({ level: 3, bounds: { min: 4096, avg: 8192, max: 65_536 } });
    const before = vault.bytes.slice();
    const open = async (): Promise<Awaited<ReturnType<typeof openVaultInput>>> => {
      const opened = await openVaultInput(path, identity, { engine, limits: {}, tensors: "cut" });
      happens(path);
      return opened;
    };
    return { added: vault.add([fileInput(name, CONTENT, { open })]), vault, before };
  }

  test("a file that does not change is stored", async () => {
    const { added, vault, before } = await addWhile("quiet", () => undefined);
    await added;
    expect(vault.bytes.byteLength).toBeGreaterThan(before.byteLength + CONTENT.byteLength);
  });

  test.each([
    ["grows", (path: string) => appendFileSync(path, "more")],
    ["is cut short", (path: string) => truncateSync(path, 1000)],
    ["has other bytes of the same length", (path: string) => writeFileSync(path, makeXorshift(5n, 400_000))],
  ])("a file that %s while it is read is refused, and the vault stays as it was", async (_, happens) => {
    const { added, vault, before } = await addWhile("busy", happens);
    await expect(added).rejects.toMatchObject({ code: expect.stringMatching(/^source\/(changed|truncated)$/) });
    expect(equalBytes(vault.bytes, before)).toBe(true);
  });

  test("a file that was replaced before it is opened is refused", async () => {
    const path = join(folder, "late");
    writeFileSync(path, "first");
    const identity = identityOf(statSync(path, { bigint: true }));
    writeFileSync(path, "second");
    const opening = openVaultInput(path, identity, { engine, limits: {}, tensors: "cut" });
    await expect(opening).rejects.toMatchObject({ code: "source/changed" });
  });
});

test("the files that belong to the vault are left out with a note, under any of their names", () => {
  const vault = join(folder, "t/v.aerovault");
  writeFileSync(vault, "vault");
  for (const path of filesBeside(vault)) writeFileSync(path, "of the vault");
  writeFileSync(join(folder, "t/other.aerovault.aerocorrect"), "of another");
  linkSync(`${vault}.aerocorrect`, join(folder, "t/hard"));
  symlinkSync(vault, join(folder, "link"));
  for (const name of ["t/v.aerovault", "link"]) {
    notes.length = 0;
    const found = collect(["t"], { vault: ownFilesOf(join(folder, name)) });
    expect(found).toEqual(["t/", "t/a.txt", "t/other.aerovault.aerocorrect", "t/sub/", "t/sub/b.bin", "t/sub/empty/"]);
    expect(notes.filter((text) => text.endsWith("belongs to the vault itself and is left out"))).toHaveLength(4);
  }
});
