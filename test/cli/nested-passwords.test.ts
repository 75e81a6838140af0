import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openModel } from "../../src/platform/node/index.ts";
import { callTare } from "./run-tare.ts";
import { smallGguf } from "./small-models.ts";

/** A vault in a vault in a vault without encryption, and a password of its own for each that is encrypted. */
let cwd: string;
const INSIDE = "plain.aerovault::outer.aerovault::inner.aerovault::m.gguf";
const run = (...args: string[]): ReturnType<typeof callTare> => callTare(args, { cwd });
const passwords = (...files: string[]): string[] => files.flatMap((file) => ["--password-file", file]);

beforeAll(async () => {
  cwd = mkdtempSync(join(tmpdir(), "tare-nested-"));
  writeFileSync(join(cwd, "m.gguf"), smallGguf());
  writeFileSync(join(cwd, "a"), "the outer password\n");
  writeFileSync(join(cwd, "b"), "the inner password\n");
  const steps = [
    ["vault", "create", "inner.aerovault", ...passwords("b")],
    ["vault", "add", "inner.aerovault", "m.gguf", ...passwords("b")],
    ["vault", "create", "outer.aerovault", ...passwords("a")],
    ["vault", "add", "outer.aerovault", "inner.aerovault", "m.gguf", ...passwords("a")],
    ["vault", "create", "plain.aerovault", "--no-encryption"],
    ["vault", "add", "plain.aerovault", "outer.aerovault", "--no-encryption"],
  ];
  for (const step of steps) expect((await run(...step)).code).toBe(0);
}, 60_000);

afterAll(() => rmSync(cwd, { recursive: true }));

test("--password-file may be repeated: one for each encrypted level, outermost first", async () => {
  expect((await run("ls", "outer.aerovault::inner.aerovault::m.gguf", ...passwords("a", "b"))).code).toBe(0);
  expect((await run("ls", INSIDE, "--no-encryption", ...passwords("a", "b"))).code).toBe(0);
  expect((await run("vault", "ls", "outer.aerovault::inner.aerovault", ...passwords("a", "b"))).code).toBe(0);
  for (const order of [["b", "a"], ["a"], ["b"]]) {
    const { code, err } = await run("ls", "outer.aerovault::inner.aerovault::m.gguf", ...passwords(...order));
    expect([code, err]).toEqual([11, expect.stringContaining("usage/password.wrong")]);
  }
}, 60_000);

test("a password that no level takes is refused, before anything is printed or changed", async () => {
  for (const args of [
    ["ls", "m.gguf", ...passwords("a", "b")],
    ["ls", "outer.aerovault::m.gguf", ...passwords("a", "b")],
    ["ls", "outer.aerovault::inner.aerovault::m.gguf", ...passwords("a", "b", "b")],
    ["vault", "mkdir", "outer.aerovault", "d", ...passwords("a", "b")],
  ]) {
    const { code, out, err } = await run(...args);
    expect([code, out, err]).toEqual([11, "", expect.stringContaining("usage/password.unused")]);
  }
  expect((await run("vault", "ls", "outer.aerovault", ...passwords("a"))).out).not.toContain("d/");
  const both = ["outer.aerovault::inner.aerovault::m.gguf", "m.gguf"];
  expect((await run("diff", ...both, ...passwords("a", "b"))).code).toBe(0);
}, 60_000);

test("the library asks for each level by its label", async () => {
  const labels: string[] = [];
  const outer = join(cwd, "outer.aerovault");
  const model = await openModel(`${outer}::inner.aerovault::m.gguf`, {
    password(label) {
      labels.push(label);
      return label.endsWith("::inner.aerovault") ? "the inner password" : "the outer password";
    },
  });
  await model.close();
  expect(labels).toEqual([outer, `${outer}::inner.aerovault`]);
});
