import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { Output } from "../../bytes/sink.ts";
import { directoryOutput } from "./directory-output.ts";

function makeFolder(): { readonly path: (name: string) => string; readonly output: Required<Output> } {
  const folder = mkdtempSync(join(tmpdir(), "tare-output-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const output = directoryOutput(folder, "m.json", { overwrite: "refuse" }) as Required<Output>;
  return { path: (name) => join(folder, name), output };
}

test("peek() opens what is there, and nothing where nothing is", async () => {
  const { path, output } = makeFolder();
  expect(await output.peek("part.aero")).toBeUndefined();
  writeFileSync(path("part.aero"), "abc");
  const source = await output.peek("part.aero");
  expect(source?.byteLength).toBe(3);
  await source?.close();
});

test("peek() does not follow a link to somebody else's bytes", async () => {
  const { path, output } = makeFolder();
  symlinkSync("/etc/hostname", path("part.aero"));
  expect(await output.peek("part.aero")).toBeUndefined();
});

test("the file that the user named is looked at and removed through a link, which stays", async () => {
  const { path, output } = makeFolder();
  writeFileSync(path("real.json"), "{}");
  symlinkSync("real.json", path("m.json"));
  const source = await output.peek("m.json");
  expect(source?.byteLength).toBe(2);
  await source?.close();
  await output.remove("m.json");
  expect(readdirSync(path("."))).toEqual(["m.json"]);
});

test("replace() swaps a file that create() refuses, and leaves no other behind", async () => {
  const { path, output } = makeFolder();
  await output.replace(".m.json.tare-resume", new TextEncoder().encode("one"));
  await output.replace(".m.json.tare-resume", new TextEncoder().encode("two"));
  expect(readFileSync(path(".m.json.tare-resume"), "utf8")).toBe("two");
  expect(readdirSync(path("."))).toEqual([".m.json.tare-resume"]);
  await expect(output.create(".m.json.tare-resume")).rejects.toMatchObject({ code: "usage/exists" });
});

test("remove() takes a file away once, and nothing outside the folder", async () => {
  const { path, output } = makeFolder();
  writeFileSync(path("part.aero"), "abc");
  await output.remove("part.aero");
  await output.remove("part.aero");
  expect(readdirSync(path("."))).toEqual([]);
  symlinkSync(tmpdir(), path("elsewhere"));
  for (const name of ["../x", "/etc/x", "elsewhere/x"]) {
    await expect(output.remove(name)).rejects.toMatchObject({ code: "source/resolver.escape" });
    await expect(output.peek(name)).rejects.toMatchObject({ code: "source/resolver.escape" });
  }
});
