import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { callTare, type Run, tare } from "./run-tare.ts";

let folder: string;
let env: Record<string, string>;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "tare-vault-"));
  env = { XDG_STATE_HOME: join(folder, "state"), TARE_PASSWORD: "" };
  writeFileSync(join(folder, "pw"), "correct horse\n");
  writeFileSync(join(folder, "pw2"), "Tr0ub4dor");
  mkdirSync(join(folder, "tree/docs/deep"), { recursive: true });
  mkdirSync(join(folder, "tree/empty dir"));
  writeFileSync(join(folder, "tree/a.bin"), noise(600_000, 1));
  writeFileSync(join(folder, "tree/docs/ünï – 层.md"), "# ü\n");
  writeFileSync(join(folder, "tree/docs/deep/zero"), "");
  chmodSync(join(folder, "tree/a.bin"), 0o600);
  utimesSync(join(folder, "tree/a.bin"), 1_600_000_000, 1_600_000_000);
});

afterAll(() => rmSync(folder, { recursive: true }));

/** Bytes that do not compress. */
function noise(length: number, seed: number): Uint8Array {
  let x = seed;
  return new Uint8Array(length).map(() => {
    x = (Math.imul(x, 1_664_525) + 1_013_904_223) | 0;
    return x >>> 24;
  });
}

function vault(...args: readonly string[]): Promise<Run> {
  return callTare(["vault", ...args], { cwd: folder, env });
}

async function ok(...args: readonly string[]): Promise<Run> {
  const run = await vault(...args);
  expect({ args, code: run.code, err: run.err }).toMatchObject({ code: 0 });
  return run;
}

/** The one document of a verb, as its schema has it. */
async function json(verb: string, ...args: readonly string[]): Promise<Record<string, unknown>> {
  const document = JSON.parse((await ok(verb, ...args, "--json")).out) as Record<string, unknown>;
  const file = new URL(`../../schemas/vault-${verb}.schema.json`, import.meta.url);
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  const isValid = ajv.validate(JSON.parse(readFileSync(file, "utf8")), document);
  expect({ verb, isValid, errors: ajv.errors }).toMatchObject({ isValid: true });
  return document;
}

async function paths(name: string, ...args: readonly string[]): Promise<string[]> {
  const { entries } = JSON.parse((await ok("ls", name, "--json", ...args)).out) as { entries: { path: string }[] };
  return entries.map(({ path }) => path);
}

function litter(): string[] {
  return readdirSync(folder).filter((name) => name.startsWith("."));
}

describe("a vault without encryption, through every verb", () => {
  it("is created, filled, changed, compacted and extracted", async () => {
    expect(await json("create", "v.aerovault", "--no-encryption")).toMatchObject({ encrypted: false });
    expect((await vault("create", "v.aerovault", "--no-encryption")).code).toBe(2);
    expect(await json("add", "v.aerovault", "tree/.")).toMatchObject({ files: 3, directories: 3, replaced: [] });
    expect(await paths("v.aerovault")).toEqual([
      "a.bin",
      "docs",
      "docs/deep",
      "docs/deep/zero",
      "docs/ünï – 层.md",
      "empty dir",
    ]);
    expect(await json("add", "v.aerovault", "tree/a.bin")).toMatchObject({ replaced: ["a.bin"], storedBytes: 0 });
    expect(await json("mv", "v.aerovault", "docs/ünï – 层.md", "moved/")).toMatchObject({ to: "moved/ünï – 层.md" });
    expect(await json("cp", "v.aerovault", "a.bin", "b.bin")).toMatchObject({ copied: 1 });
    expect(await json("mkdir", "v.aerovault", "new/dir", "new")).toMatchObject({ created: 2 });
    expect(await json("rm", "v.aerovault", "a.bin")).toMatchObject({ removed: 1, freedBytes: 0 });
    const removed = await json("rm", "v.aerovault", "docs", "b.bin", "-r");
    expect(removed["freedBytes"]).toBeGreaterThan(590_000);
    expect(await json("compact", "v.aerovault")).toMatchObject({
      byteLength: statSync(join(folder, "v.aerovault")).size,
    });
    expect(statSync(join(folder, "v.aerovault")).size).toBeLessThan(10_000);
    expect(await json("extract", "v.aerovault", "-o", "out")).toMatchObject({ files: 1 });
    expect(readFileSync(join(folder, "out/moved/ünï – 层.md"), "utf8")).toBe("# ü\n");
    expect(litter()).toEqual([]);
  });

  it("keeps times and permissions, and replaces files on disk only with --force", async () => {
    await ok("create", "m.aerovault", "--no-encryption", "--profile", "fast");
    await ok("add", "m.aerovault", "tree/a.bin", "--to", "x/y");
    await ok("extract", "m.aerovault", "-o", "out-m");
    const facts = statSync(join(folder, "out-m/x/y/a.bin"));
    expect([facts.mode & 0o777, facts.mtimeMs]).toEqual([0o600, 1_600_000_000_000]);
    expect((await vault("extract", "m.aerovault", "-o", "out-m")).code).toBe(2);
    await ok("extract", "m.aerovault", "-o", "out-m", "--force");
    await ok("extract", "m.aerovault", "x", "-o", "out-x");
    expect(readFileSync(join(folder, "out-x/x/y/a.bin")).equals(noise(600_000, 1))).toBe(true);
  });

  it("takes standard input, includes, excludes and dry runs", async () => {
    await ok("create", "s.aerovault", "--no-encryption");
    const input = new TextEncoder().encode("from a pipe");
    const args = ["vault", "add", "s.aerovault", "-", "--stdin-name", "in.txt", "--to", "d"];
    expect((await callTare(args, { cwd: folder, env, input })).code).toBe(0);
    expect((await ok("cat", "s.aerovault", "d/in.txt")).out).toBe("from a pipe");
    const size = statSync(join(folder, "s.aerovault")).size;
    expect(await json("add", "s.aerovault", "tree", "--dry-run")).toMatchObject({
      dryRun: true,
      files: 3,
      byteLength: null,
    });
    expect(await json("rm", "s.aerovault", "d", "-r", "--dry-run")).toMatchObject({ removed: 2 });
    expect(statSync(join(folder, "s.aerovault")).size).toBe(size);
    await ok("add", "s.aerovault", "tree", "--include", "*.md", "--exclude", "*/deep");
    expect(await paths("s.aerovault")).toEqual(["d", "d/in.txt", "tree", "tree/docs", "tree/docs/ünï – 层.md"]);
  });

  it("refuses what would be lost in silence, and stays as it was", async () => {
    await ok("create", "r.aerovault", "--no-encryption");
    await ok("add", "r.aerovault", "tree");
    const before = readFileSync(join(folder, "r.aerovault"));
    mkdirSync(join(folder, "bad"), { recursive: true });
    symlinkSync("nowhere", join(folder, "bad/dangling"));
    writeFileSync(join(folder, "trailing "), "x");
    for (const [code, ...args] of [
      [9, "add", "r.aerovault", "bad"],
      [2, "add", "r.aerovault", "trailing "],
      [2, "add", "r.aerovault", "tree/a.bin", "out/../tree/a.bin"],
      [9, "add", "r.aerovault", "missing"],
      [2, "add", "r.aerovault", "pw", "--to", "tree/a.bin"],
      [2, "mv", "r.aerovault", "tree", "tree/docs/x"],
      [2, "cp", "r.aerovault", "tree/a.bin", "../x"],
      [9, "mv", "r.aerovault", "none", "x"],
      [2, "rm", "r.aerovault", "tree"],
      [9, "rm", "r.aerovault", "tree/a.bin", "none"],
      [2, "mkdir", "r.aerovault", "tree/a.bin/x"],
      [6, "passwd", "r.aerovault", "--new-password-file", "pw2"],
    ] as const) {
      expect({ args, code: (await vault(...args)).code }).toEqual({ args, code });
    }
    expect(readFileSync(join(folder, "r.aerovault")).equals(before)).toBe(true);
    expect(litter()).toEqual([]);
  });

  it("is written by one program at a time", async () => {
    await ok("create", "l.aerovault", "--no-encryption");
    const lock = join(folder, ".l.aerovault.lock");
    writeFileSync(lock, `pid=${process.pid} created_at=2026-01-01T00:00:00Z\n`);
    let waiting: Promise<Run> | undefined;
    await new Promise<void>((told, ended) => {
      const onErr = (text: string): void => void (text.includes(`waiting for process ${process.pid}`) && told());
      waiting = tare(["vault", "mkdir", "l.aerovault", "d"], { cwd: folder, env, onErr });
      void waiting.then(ended);
    });
    expect(await paths("l.aerovault")).toEqual([]);
    rmSync(lock);
    expect((await waiting)?.code).toBe(0);
    expect(await paths("l.aerovault")).toEqual(["d"]);
  });

  it("stays behind the link that leads to it", async () => {
    await ok("create", "real.aerovault", "--no-encryption");
    symlinkSync("real.aerovault", join(folder, "link.aerovault"));
    await ok("mkdir", "link.aerovault", "d");
    expect(await paths("real.aerovault")).toEqual(["d"]);
  });
});

describe("an encrypted vault", () => {
  it("opens with its password only, changes it, and takes new keys", async () => {
    const [old, fresh] = [
      ["--password-file", "pw"],
      ["--password-file", "pw2"],
    ] as const;
    writeFileSync(join(folder, "short"), "1234567");
    expect((await vault("create", "e.aerovault", "--password-file", "short")).code).toBe(2);
    expect((await vault("create", "e.aerovault")).code).toBe(11);
    await ok("create", "e.aerovault", ...old);
    await ok("add", "e.aerovault", "tree/docs", ...old);
    const raw = readFileSync(join(folder, "e.aerovault"));
    expect([raw.includes("ünï"), raw.includes("# ü")]).toEqual([false, false]);
    expect((await vault("ls", "e.aerovault", ...fresh)).code).toBe(11);
    const passwd = await ok("passwd", "e.aerovault", ...old, "--new-password-file", "pw2");
    expect(passwd.err).toContain("--rekey");
    expect((await vault("ls", "e.aerovault", ...old)).code).toBe(11);
    await ok("passwd", "e.aerovault", ...fresh, "--new-password-file", "pw", "--rekey");
    expect((await ok("cat", "e.aerovault", "docs/ünï – 层.md", ...old)).out).toBe("# ü\n");
    expect(litter()).toEqual([]);
  });

  it("that is older than the one last seen is told", async () => {
    const password = ["--password-file", "pw"];
    await ok("create", "o.aerovault", ...password);
    const before = readFileSync(join(folder, "o.aerovault"));
    await ok("mkdir", "o.aerovault", "d", ...password);
    writeFileSync(join(folder, "o.aerovault"), before);
    const run = await ok("mkdir", "o.aerovault", "e", ...password);
    expect(run.err).toContain("older than the one last seen");
  });
});

/** Preloaded: kills the process before its nth call that changes something on the disk. */
const KILLER = `const fs = require("node:fs");
let calls = 0;
const counted = (of, names) => {
  for (const name of names) {
    const original = of[name];
    of[name] = function (...args) {
      if (++calls >= Number(process.env.KILL_AT)) process.kill(process.pid, "SIGKILL");
      return Reflect.apply(original, this, args);
    };
  }
};
counted(fs, ["writeSync"]);
counted(fs.promises, ["link", "unlink", "rename"]);
const { open } = fs.promises;
let isKnown = false;
fs.promises.open = async (...args) => {
  const handle = await open(...args);
  if (!isKnown) counted(Object.getPrototypeOf(handle), ["write", "writeFile", "sync", "datasync", "truncate"]);
  isKnown = true;
  return handle;
};
require("node:module").syncBuiltinESMExports();`;

it("kill -9 at any moment leaves the old vault or the new one, and nothing else later", async () => {
  await ok("create", "k.aerovault", "--no-encryption", "--profile", "fast");
  writeFileSync(join(folder, "first.bin"), noise(18 << 20, 5));
  writeFileSync(join(folder, "second.bin"), noise(24 << 20, 6));
  // Longer than what is copied: the change is made in place.
  await ok("add", "k.aerovault", "first.bin");
  writeFileSync(join(folder, "killer.cjs"), KILLER);
  const had = new Set(readdirSync(folder));
  const states: string[][] = [];
  for (let nth = 1, ended: unknown; ended !== 0; nth = Math.ceil(nth * 1.5)) {
    const more = { ...env, KILL_AT: String(nth), NODE_OPTIONS: `--require=${join(folder, "killer.cjs")}` };
    ended = (await callTare(["vault", "add", "k.aerovault", "second.bin"], { cwd: folder, env: more })).code;
    expect(ended).toBe(ended === 0 ? 0 : null);
    states.push(await paths("k.aerovault"));
  }
  // Killed before the lock is made and after, and in the middle of what is written; the last one is not killed.
  expect(states.length).toBeGreaterThan(6);
  const [old, changed] = [["first.bin"], ["first.bin", "second.bin"]];
  expect([states[0], states.at(-1)]).toEqual([old, changed]);
  for (const state of states) expect([old, changed]).toContainEqual(state);
  await ok("mkdir", "k.aerovault", "later");
  await ok("scrub", "k.aerovault");
  expect(readdirSync(folder).filter((name) => !had.has(name))).toEqual([]);
});
