import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeXorshift } from "../builders/vault-content.ts";
import { callTare, type Run } from "./run-tare.ts";

/** A damaged block costs the files that need it, each by name, and no other file. */

let folder: string;
let env: Record<string, string>;
const contents = new Map<string, Uint8Array>();

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tare-damaged-"));
  env = { XDG_STATE_HOME: join(folder, "state") };
  writeFileSync(join(folder, "pw"), "correct horse\n");
  mkdirSync(join(folder, "t"));
  // Two long files that several jobs write, some with blocks of their own, and two in one pack.
  const lengths = { a: 400_000, b: 17 << 20, c: 500_000, d: 100_000, e: 100_000, f: 17 << 20 };
  for (const [i, [name, length]] of Object.entries(lengths).entries()) {
    contents.set(name, makeXorshift(BigInt(2 * i + 5), length));
    writeFileSync(join(folder, "t", name), contents.get(name) as Uint8Array);
  }
  for (const [vault, more] of LANES) {
    await ok("vault", "create", `@${vault}`, "--profile", "fast", ...more);
    // One thread, so that the blocks lie in the order of the files: several put them where they end.
    await ok("vault", "add", `@${vault}`, "@t/.", "--concurrency", "1", ...more);
  }
});
afterAll(() => rmSync(folder, { recursive: true }));

const LANES = [
  ["sealed", ["--password-file", "@pw"]],
  ["open", ["--no-encryption"]],
] as const;

function run(...args: readonly string[]): Promise<Run> {
  return callTare(
    args.map((word) => word.replace(/^@/, `${folder}/`)),
    { env },
  );
}

async function ok(...args: readonly string[]): Promise<Run> {
  const done = await run(...args);
  expect({ args, code: done.code, err: done.err }).toMatchObject({ code: 0 });
  return done;
}

/** The vault with one other byte at each of these places after its header; large files come first, in order. */
function hurt(vault: string, ...places: readonly number[]): string {
  const bytes = readFileSync(join(folder, vault));
  for (const place of places) bytes[1024 + place] = (bytes[1024 + place] as number) ^ 1;
  writeFileSync(join(folder, `${vault}.hurt`), bytes);
  return `@${vault}.hurt`;
}

interface Result {
  readonly files: number;
  readonly failed: readonly { readonly path: string; readonly code: string; readonly message: string }[];
}

describe.each(LANES)("a %s vault with damaged blocks", (vault, more) => {
  it.each([
    [["a"], [200_000]],
    [["b"], [400_000 + (9 << 20)]],
    [
      ["a", "c"],
      [200_000, 400_000 + (17 << 20) + 250_000],
    ],
    [
      ["b", "f"],
      [400_000 + (3 << 20), 900_000 + (26 << 20)],
    ],
    [["d", "e"], [900_000 + (34 << 20) + 150_000]],
  ] as const)("gives all but %s, and names them", async (lost, places) => {
    const damaged = hurt(vault, ...places);
    for (const [i, verb] of [["vault", "extract"], ["extract"]].entries()) {
      const out = join(folder, `${vault}-${lost.join("")}-${i}`);
      const done = await run(...verb, damaged, "-o", out, "--json", ...more);
      expect({ code: done.code, err: done.err }).toMatchObject({ code: 5 });
      const result = JSON.parse(done.out) as Result;
      expect(result.failed.map(({ path }) => path)).toEqual(lost);
      for (const { path, code, message } of result.failed) {
        expect(code).toMatch(/^integrity\/aerovault\./);
        expect(done.err).toContain(`did not write "${path}": ${message} [${code}]`);
      }
      const kept = [...contents.keys()].filter((name) => !(lost as readonly string[]).includes(name));
      expect(result.files).toBe(kept.length);
      expect(readdirSync(out).sort()).toEqual(kept);
      for (const name of kept) {
        expect(readFileSync(join(out, name)).equals(contents.get(name) as Uint8Array)).toBe(true);
      }
      rmSync(out, { recursive: true });
    }
  });

  it("keeps a file that a damaged one would have replaced", async () => {
    const out = join(folder, `${vault}-kept`);
    mkdirSync(out);
    writeFileSync(join(out, "a"), "old");
    const done = await run("vault", "extract", hurt(vault, 200_000), "a", "c", "-o", out, "--force", ...more);
    expect(done.code).toBe(5);
    expect(done.out).toContain("wrote 1 file");
    expect(done.out).toContain("1 damaged file not written");
    expect(readFileSync(join(out, "a"), "utf8")).toBe("old");
    expect(existsSync(join(out, "c"))).toBe(true);
  });
});
