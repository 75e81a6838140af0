import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import Module from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { tare } from "./run-tare.ts";

/** Newer versions of Node keep the code themselves, in files of their own. */
const isOurs = !("enableCompileCache" in Module);

describe.skipIf(!isOurs)("compiled code kept for the next start", () => {
  let cache: string;
  const start = (env: Record<string, string> = {}) =>
    tare(["explain", "usage/arguments"], {
      env: { TARE_CACHE: "", XDG_CACHE_HOME: cache, TARE_CACHE_SIZE: "", ...env },
    });
  const code = (): string => join(cache, "tare", "code");
  const folder = (): string => join(code(), readdirSync(code())[0] ?? "");
  const kept = (): string[] => readdirSync(folder()).map((name) => join(folder(), name));

  beforeEach(() => {
    cache = mkdtempSync(join(tmpdir(), "tare-code-"));
  });

  afterEach(() => rmSync(cache, { recursive: true, force: true }));

  it("is written once, and read by the next command", async () => {
    expect((await start()).code).toBe(0);
    const before = kept().map((path) => [path, statSync(path).ino]);
    expect(before.length).toBeGreaterThan(3);
    expect((await start()).code).toBe(0);
    expect(kept().map((path) => [path, statSync(path).ino])).toEqual(before);
  });

  it("is for its owner alone", async () => {
    await start();
    expect(statSync(folder()).mode & 0o077).toBe(0);
    for (const path of kept()) expect(statSync(path).mode & 0o077).toBe(0);
  });

  it("is made anew where a bit of it was flipped or its end is missing", async () => {
    const sound = await start();
    const [first = "", second = ""] = kept();
    const [flipped, whole] = [readFileSync(first), readFileSync(second)];
    flipped[flipped.length >> 1] = (flipped[flipped.length >> 1] as number) ^ 1;
    writeFileSync(first, flipped);
    writeFileSync(second, whole.subarray(0, 3));
    expect(await start()).toMatchObject({ code: 0, out: sound.out });
    expect(readFileSync(first).equals(flipped)).toBe(false);
    expect(statSync(second).size).toBeGreaterThan(3);
  });

  it("of an older version goes after a month, when other code is written", async () => {
    await start();
    const old = join(folder(), "gone-12345678.js.bin");
    writeFileSync(old, "x");
    const then = Date.now() / 1000 - 40 * 86_400;
    utimesSync(old, then, then);
    rmSync(kept().find((path) => path !== old) ?? "");
    await start();
    expect(existsSync(old)).toBe(false);
  });

  it("is neither written nor needed where the cache is turned off or cannot be made", async () => {
    expect((await start({ TARE_CACHE_SIZE: "0" })).code).toBe(0);
    expect(existsSync(code())).toBe(false);
    const file = join(cache, "file");
    writeFileSync(file, "");
    expect(await start({ XDG_CACHE_HOME: file })).toMatchObject({ code: 0, err: "" });
  });

  it("stays out of the folder that TARE_CACHE names: that one is for remote files alone", async () => {
    const remote = join(cache, "remote");
    expect((await start({ TARE_CACHE: remote })).code).toBe(0);
    expect(existsSync(remote)).toBe(false);
    expect(kept().length).toBeGreaterThan(3);
  });
});
