import { spawn } from "node:child_process";
import {
  copyFileSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { INPUT_NAMES } from "../../cli/command.ts";
import { COMMANDS } from "../../cli/commands/registry.ts";
import { callTare, type Run, TARE, tare } from "./run-tare.ts";
import { smallGguf, smallSafetensors } from "./small-models.ts";

/** An output that is named VAULT::path: in the vault, or refused; never in clear beside it. */

let folder: string;
let env: Record<string, string>;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tare-outputs-"));
  env = { XDG_STATE_HOME: join(folder, ".state"), TARE_PASSWORD_FILE: join(folder, "pw") };
  writeFileSync(join(folder, "pw"), "correct horse\n");
  writeFileSync(join(folder, "m.safetensors"), smallSafetensors());
  writeFileSync(join(folder, "m.gguf"), smallGguf());
  await ok("keygen", "-o", "@k");
  await ok("vault", "create", "@fresh", "--profile", "fast");
  await ok("vault", "add", "@fresh", "@m.gguf");
});
beforeEach(() => copyFileSync(join(folder, "fresh"), join(folder, "v")));
afterAll(() => rmSync(folder, { recursive: true }));

/** A command whose words that begin with @ are paths in the folder. */
function run(args: readonly string[]): Promise<Run> {
  return callTare(
    args.map((word) => word.replace(/^@/, `${folder}/`)),
    { env },
  );
}

/** The program itself, for names that count as they are typed: it works in the folder. */
async function program(...args: readonly string[]): Promise<Run> {
  const done = await tare(args, { cwd: folder, env });
  expect({ args, code: done.code, err: done.err }).toMatchObject({ code: 0 });
  return done;
}

async function ok(...args: readonly string[]): Promise<Run> {
  const done = await run(args);
  expect({ args, code: done.code, err: done.err }).toMatchObject({ code: 0 });
  return done;
}

/** Everything in the folder that no test put there, at any depth. */
function beside(): string[] {
  const known = /^(\.state|pw|m\.|k\.|fresh$|v$)/;
  return readdirSync(folder).filter((name) => !known.test(name));
}

function isUnchanged(): boolean {
  return readFileSync(join(folder, "v")).equals(readFileSync(join(folder, "fresh")));
}

describe("what is one file", () => {
  const stored: readonly (readonly [string, readonly string[]])[] = [
    ["x.gguf", ["convert", "@m.safetensors", "@v::x.gguf", "--verify"]],
    ["deep/er/x.apr", ["convert", "@m.safetensors", "@v::deep/er/x.apr"]],
    ["dir/m.gguf", ["convert", "@m.safetensors", "@v::dir/", "--to", "gguf"]],
    ["own.safetensors", ["convert", "@v::m.gguf", "@v::own.safetensors"]],
    ["q.gguf", ["quantize", "@m.gguf", "@v::q.gguf", "-t", "q8_0"]],
    ["d.gguf", ["dequantize", "@m.gguf", "@v::d.gguf", "-t", "f32"]],
    ["one.gguf", ["merge", "@m.gguf", "-o", "@v::one.gguf"]],
    ["t.bin", ["cat", "@m.safetensors", "model.norm.weight", "-o", "@v::t.bin"]],
    ["copy.gguf", ["vault", "cat", "@v", "m.gguf", "-o", "@v::copy.gguf"]],
    ["s.safetensors", ["stamp", "@m.safetensors", "--set", "a=b", "-o", "@v::s.safetensors"]],
    ["ls.json", ["ls", "@m.gguf", "--json", "-o", "@v::ls.json"]],
  ];

  it.each(stored)("is stored: %s", async (path, args) => {
    const done = await ok(...args);
    if (args[0] === "convert") expect(done.out).toContain(`wrote ${join(folder, "v")}::${path}`);
    expect(beside()).toEqual([]);
    const { entries } = JSON.parse((await ok("vault", "ls", "@v", "--json")).out) as { entries: { path: string }[] };
    expect(entries.map((entry) => entry.path)).toEqual(expect.arrayContaining(["m.gguf", path]));
    await ok("vault", "scrub", "@v");
    if (/\.(gguf|apr|safetensors)$/.test(path)) await ok("verify", `@v::${path}`);
  });

  it("is the very file that would be on disk", async () => {
    await ok("convert", "@m.gguf", "@v::x.safetensors");
    await ok("convert", "@m.gguf", "@m.there.safetensors");
    const { stdout } = await ok("vault", "cat", "@v", "x.safetensors");
    expect(stdout.equals(readFileSync(join(folder, "m.there.safetensors")))).toBe(true);
  });

  it("replaces nothing without --force, also in a dry run", async () => {
    for (const more of [[], ["--dry-run"]]) {
      expect((await run(["convert", "@m.safetensors", "@v::m.gguf", ...more])).code).toBe(2);
      expect(isUnchanged()).toBe(true);
    }
    await ok("convert", "@m.safetensors", "@v::m.gguf", "--force");
    expect(isUnchanged()).toBe(false);
  });

  it("needs the password before anything is written", async () => {
    writeFileSync(join(folder, "pw2"), "another one");
    const wrong = await run(["convert", "@m.safetensors", "@v::x.gguf", "--password-file", "@pw2"]);
    rmSync(join(folder, "pw2"));
    expect(wrong.code).toBe(11);
    expect(isUnchanged()).toBe(true);
    expect(beside()).toEqual([]);
  });
});

describe("what is not one file", () => {
  const refused: readonly (readonly [number, readonly string[]])[] = [
    [2, ["vault", "create", "@v::inner"]],
    [2, ["shard", "@m.gguf", "-o", "@v::d", "--max-size", "1"]],
    [2, ["convert", "@m.safetensors", "@v::x.gguf", "--max-shard-size", "1"]],
    [2, ["convert", "@m.gguf", "@v::x.gguf", "--sign", "@k.key"]],
    [2, ["extract", "@m.gguf", "-o", "@v::d"]],
    [2, ["vault", "extract", "@v", "-o", "@v::d"]],
    [2, ["vault", "parity", "@v", "export", "-o", "@v::p"]],
    [2, ["vault", "repair", "@v", "-o", "@v::r"]],
    [2, ["correct", "gen", "@m.gguf", "-o", "@v::c"]],
    [2, ["sign", "@m.gguf", "--key", "@k.key", "-o", "@v::s"]],
    [2, ["keygen", "-o", "@v::k"]],
    [2, ["demo", "@v::d"]],
    [2, ["pull", "http://127.0.0.1:9/x.gguf", "-o", "@v::d"]],
    [2, ["convert", "@m.gguf", "@v::../x.gguf"]],
    [2, ["convert", "@m.gguf", "@v::", "--to", "gguf"]],
    [2, ["convert", "@m.gguf", "@v::x.aeroset.json"]],
    [2, ["convert", "@m.gguf", "@v::x.aeroset.json", "--dry-run"]],
    [2, ["cat", "@m.gguf", "token_embd.weight", "-o", "@v::x "]],
    [2, ["convert", "@m.gguf", "@v::x.gguf\u00a0", "--to", "gguf"]],
    [6, ["convert", "@m.gguf", "@v::x.aero"]],
    [6, ["convert", "@m.gguf", "@v::m.gguf::x.gguf"]],
    [6, ["convert", "@m.gguf", "s3://bucket/v::x.gguf"]],
    [9, ["convert", "@m.gguf", "@missing::x.gguf"]],
    [9, ["cat", "@m.gguf", "token_embd.weight", "-o", "@missing::deep/x"]],
  ];

  it.each(refused)("is refused with %i: %s", async (code, args) => {
    const done = await run(args);
    expect({ code: done.code, err: done.err }).toMatchObject({ code });
    expect(isUnchanged()).toBe(true);
    expect(beside()).toEqual([]);
  });
});

describe("an address", () => {
  const refused: readonly (readonly string[])[] = [
    ["convert", "@m.gguf", "https://u:SEKRET@h/x.gguf"],
    ["convert", "@m.gguf", "-o", "ftp://u:SEKRET@h/x.gguf?sig=SEKRET"],
    ["cat", "@m.gguf", "token_embd.weight", "-o", "http://u:SEKRET@h/x"],
    ["ls", "@m.gguf", "-o", "https://u:SEKRET@h/report"],
    ["ls", "@m.gguf", "-o", "s3://bucket/report"],
    ["extract", "@m.gguf", "-o", "s3://bucket/d"],
    ["vault", "extract", "@v", "-o", "https://u:SEKRET@h/d"],
    ["vault", "create", "http://u:SEKRET@h/v"],
    ["keygen", "-o", "https://u:SEKRET@h/k"],
  ];

  it.each(refused)("is no path on disk: %s %s %s %s", async (...args) => {
    for (const more of [[], ["--json"]]) {
      const done = await run([...args, ...more]);
      expect({ code: done.code, err: done.err }).toMatchObject({ code: 6 });
      expect(done.out + done.err).toContain("unsupported/scheme");
      expect(done.out + done.err).not.toContain("SEKRET");
    }
    expect(beside()).toEqual([]);
  });

  it("is told without its user part where a push cannot go there", async () => {
    const done = await run(["push", "@m.gguf", "https://AKIA:SEKRET@bucket/x", "--json"]);
    expect(done.code).toBe(2);
    expect(done.out + done.err).not.toMatch(/AKIA|SEKRET/);
  });
});

describe("a file that the command reads", () => {
  const VAULT_OUTPUTS: readonly (readonly string[])[] = [
    ["vault", "parity", "IN", "export", "-o", "OUT"],
    ["vault", "ls", "IN", "-o", "OUT"],
    ["vault", "info", "IN", "-o", "OUT"],
    ["vault", "scrub", "IN", "-o", "OUT"],
    ["vault", "cat", "IN", "m.gguf", "-o", "OUT"],
    ["vault", "repair", "IN", "-o", "OUT"],
    ["vault", "mkdir", "IN", "d", "-o", "OUT"],
    ["vault", "add", "IN", "@m.gguf", "-o", "OUT"],
    ["vault", "diff", "@fresh", "IN", "-o", "OUT"],
    ["vault", "create", "IN", "-o", "OUT"],
    ["correct", "gen", "IN", "-o", "OUT"],
    ["inspect", "IN::m.gguf", "-o", "OUT"],
    ["convert", "IN::m.gguf", "OUT", "--to", "gguf"],
    ["convert", "IN::m.gguf", "-o", "OUT", "--to", "gguf"],
    ["cat", "IN::m.gguf", "token_embd.weight", "-o", "OUT"],
  ];

  function typed(args: readonly string[], input: string, output: string): readonly string[] {
    return [...args.map((word) => word.replace(/^IN\b/, input).replace(/^OUT$/, output)), "--force"];
  }

  it.each(VAULT_OUTPUTS)("is no output where it is a vault: %s %s %s %s %s", async (...args) => {
    symlinkSync("v", join(folder, "m.link"));
    linkSync(join(folder, "v"), join(folder, "m.hard"));
    const pairs = [
      ["@v", "@./v"],
      ["@v", "@m.hard"],
      ["@v", "@.v.tare-header"],
      ["@m.link", "@v"],
      ["@m.link", "@.v.lock"],
    ] as const;
    try {
      for (const [input, output] of pairs) {
        const done = await run(typed(args, input, output));
        expect({ input, output, code: done.code, err: done.err }).toMatchObject({ code: 2 });
        expect(done.err).toMatch(/usage\/(vault\.own-file|own-input)/);
        expect(isUnchanged()).toBe(true);
      }
    } finally {
      rmSync(join(folder, "m.link"));
      rmSync(join(folder, "m.hard"));
    }
    expect(beside()).toEqual([]);
  });

  it("is no output where it is the sidecar, unless sidecars are what is made", async () => {
    await ok("vault", "parity", "@v", "export");
    const sidecar = readFileSync(join(folder, "v.aerocorrect"));
    for (const args of [
      ["vault", "ls", "@v", "-o", "@v.aerocorrect"],
      ["vault", "cat", "@v", "m.gguf", "-o", "@v.aerocorrect"],
      ["vault", "repair", "@v", "--sidecar", "@v.aerocorrect", "-o", "@v.aerocorrect"],
    ]) {
      const done = await run([...args, "--force"]);
      expect({ args, code: done.code, err: done.err }).toMatchObject({ code: 2 });
    }
    expect(readFileSync(join(folder, "v.aerocorrect")).equals(sidecar)).toBe(true);
    await ok("vault", "parity", "@v", "export");
    await ok("correct", "gen", "@v", "--force");
    rmSync(join(folder, "v.aerocorrect"));
  });

  it("is no output where it is a model and what is written is not all of it", async () => {
    const model = join(folder, "m.one.gguf");
    writeFileSync(model, smallGguf());
    for (const args of [
      ["ls", model, "-o", model],
      ["cat", model, "token_embd.weight", "-o", model],
      ["correct", "gen", model, "-o", model],
      ["sign", model, "--key", "@k.key", "-o", model],
      ["sign", model, "--key", "@k.key", "-o", "@k.key"],
      ["ls", model, "-o", "@pw", "--password-file", "@pw"],
      ["verify", model, "-o", model],
    ]) {
      const done = await run([...args, "--force"]);
      expect({ args, code: done.code, err: done.err }).toMatchObject({ code: 2 });
      expect(done.err).toContain("usage/own-input");
    }
    expect(readFileSync(model).equals(smallGguf())).toBe(true);
    // A name that only looks like one of a file: an entry, a tensor.
    writeFileSync(join(folder, "m.gguf.copy"), "old");
    await ok("vault", "mv", "@v", "m.gguf", "m.gguf.copy");
    await program("vault", "cat", "v", "m.gguf.copy", "-o", "m.gguf.copy", "--force");
  });

  it("may be the output of what rewrites a model, but not where that is several files", async () => {
    const place = mkdtempSync(join(folder, "m.set-"));
    const at = (name: string): string => join(place, name);
    writeFileSync(at("a.safetensors"), smallSafetensors());
    await ok("convert", at("a.safetensors"), at("a.safetensors"), "--force");
    await ok("shard", at("a.safetensors"), "-o", place, "--max-size", "1");
    const shards = readdirSync(place).filter((name) => /-of-/.test(name));
    const first = at(shards[0] as string);
    expect(shards.length).toBeGreaterThan(1);
    const before = readFileSync(first);
    for (const args of [
      ["ls", at("a.safetensors.index.json"), "-o", first],
      ["convert", at("a.safetensors.index.json"), at("a.safetensors"), "--max-shard-size", "1"],
    ]) {
      const done = await run([...args, "--force"]);
      expect({ args, code: done.code, err: done.err }).toMatchObject({ code: 2 });
      expect(done.err).toContain("usage/own-input");
    }
    expect(readFileSync(first).equals(before)).toBe(true);
  });

  /** Names of all arguments that no command reads. */
  const OTHER_NAMES: ReadonlySet<string> = new Set(
    "OUT NEW DIR URL DESTINATION NAME ENTRY GLOB KEY FROM TO TEXT CODE SHELL update export|embed|strip ls|verify|prune|clear|path".split(
      " ",
    ),
  );

  it("is known for every argument of every command", async () => {
    for (const { name, load } of COMMANDS) {
      for (const argument of (await load()).positionals.names) {
        expect({ name, argument, known: INPUT_NAMES.has(argument) !== OTHER_NAMES.has(argument) }).toMatchObject({
          known: true,
        });
      }
    }
  });
});

describe("the vault itself", () => {
  it.each(["own", "own.aerocorrect", ".own.lock", ".own.tare-header", ".own.lock/x"])(
    "is not extracted over: %s",
    async (entry) => {
      const place = mkdtempSync(join(folder, "m.own-"));
      const own = join(place, "own");
      copyFileSync(join(folder, "v"), own);
      await ok("vault", "mv", own, "m.gguf", entry);
      const before = readFileSync(own);
      symlinkSync(own, join(place, "link"));
      for (const vault of [own, join(place, "link")]) {
        for (const verb of [["vault", "extract"], ["extract"]]) {
          const done = await run([...verb, vault, "-o", place, "--force"]);
          expect({ code: done.code, err: done.err }).toMatchObject({ code: 2 });
          expect(done.err).toContain("usage/vault.own-file");
        }
      }
      expect(readFileSync(own).equals(before)).toBe(true);
      expect(readdirSync(place).sort()).toEqual(["link", "own"]);
      await ok("vault", "extract", own, "-o", join(place, "out"));
    },
  );

  it("is not extracted over by another name of it", async () => {
    const place = mkdtempSync(join(folder, "m.own-"));
    linkSync(join(folder, "v"), join(place, "m.gguf"));
    const done = await run(["vault", "extract", "@v", "-o", place, "--force"]);
    expect({ code: done.code, err: done.err }).toMatchObject({ code: 2 });
    rmSync(join(place, "m.gguf"));
    writeFileSync(join(place, "m.gguf"), "old");
    await ok("vault", "extract", "@v", "-o", place, "--force");
  });
});

it("leaves nothing in clear where it is killed midway", async () => {
  const child = spawn(process.execPath, [TARE, "vault", "cat", "v", "m.gguf", "-o", "v::x"], {
    cwd: folder,
    env: { ...process.env, ...env },
    stdio: "ignore",
  });
  const ended = new Promise((resolve) => child.on("close", resolve));
  while (child.exitCode === null && !readdirSync(folder).some((name) => name.includes("lock"))) {
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  child.kill("SIGKILL");
  await ended;
  const bytes = readFileSync(join(folder, "m.gguf"));
  for (const name of beside()) {
    expect(readFileSync(join(folder, name)).includes(bytes.subarray(-32)), name).toBe(false);
  }
  await ok("vault", "scrub", "@v");
  for (const name of beside()) rmSync(join(folder, name));
});

describe("a name with colons", () => {
  it.each(["a:b.gguf", "c::d.gguf", "aux.gguf"])("is that of a sound file: %s", async (name) => {
    const path = join(folder, name);
    copyFileSync(join(folder, "m.gguf"), path);
    try {
      await program("verify", name);
      await program("sign", name, "--key", "k.key");
      await program("verify", name, "--public-key", "k.pub");
      await program("convert", "m.safetensors", name, "--force");
    } finally {
      rmSync(path);
      rmSync(`${path}.sig`, { force: true });
    }
  });

  it("may be that of a folder to write to", async () => {
    mkdirSync(join(folder, "m.p::q"));
    await program("convert", "m.gguf", "m.p::q/new/x.safetensors");
  });
});
