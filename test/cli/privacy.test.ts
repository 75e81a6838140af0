import { execFileSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { accessPrograms } from "../../src/platform/node/files/own-folder.ts";
import { callHere } from "./run-tare.ts";
import { smallGguf, smallSafetensors } from "./small-models.ts";

/** What replaces a file, or is made of one, lets in nobody whom that file kept out: groups and access lists. */

const isRoot = process.geteuid?.() === 0;
/** A group that no test process has as its own. */
const GROUP = 71_235;

let folder: string;
let place: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tare-privacy-"));
  writeFileSync(join(folder, "m.safetensors"), smallSafetensors());
  writeFileSync(join(folder, "m.gguf"), smallGguf());
  await ok("keygen", "-o", "@k");
  await ok("convert", "@m.safetensors", "@m.apr");
  await ok("vault", "create", "@v", "--no-encryption", "--parity", "20%");
  await ok("correct", "gen", "@m.gguf");
});
beforeEach(() => {
  place = mkdtempSync(join(folder, "place-"));
  for (const name of ["m.gguf", "m.apr", "v", "m.gguf.aerocorrect"]) copyFileSync(join(folder, name), here(name));
});
afterAll(() => rmSync(folder, { recursive: true }));

async function ok(...args: readonly string[]): Promise<void> {
  const named = args.map((word) => word.replace(/^@/, `${folder}/`).replace(/^%/, `${place}/`));
  const done = await callHere(named, { env: { XDG_STATE_HOME: join(folder, ".state") } });
  expect({ args, code: done.code, err: done.err }).toMatchObject({ code: 0 });
}

function here(name: string): string {
  return join(place, name);
}

function facts(name: string): string {
  const { mode, gid } = statSync(here(name));
  return `${(mode & 0o777).toString(8)} ${gid}`;
}

describe.runIf(isRoot)("a file that is replaced", () => {
  it.each([
    ["X", ["convert", "@m.safetensors", "%X", "--to", "gguf", "--force"]],
    ["X", ["cat", "@m.safetensors", "model.norm.weight", "-o", "%X", "--force"]],
    ["X", ["ls", "@m.safetensors", "-o", "%X", "--force"]],
    ["m.gguf", ["stamp", "%m.gguf", "--set", "general.name=x", "--rewrite"]],
    ["m.apr", ["sign", "%m.apr", "--key", "@k.key"]],
    ["m.gguf.sig", ["sign", "%m.gguf", "--key", "@k.key"]],
    ["m.safetensors", ["shard", "@m.safetensors", "-o", "%.", "--max-size", "1GB", "--force"]],
    ["v", ["vault", "mkdir", "%v", "d"]],
    ["v", ["vault", "compact", "%v"]],
  ] as const)("keeps mode and group: %s %j", async (name, args) => {
    if (!existsSync(here(name))) writeFileSync(here(name), "old");
    chmodSync(here(name), 0o660);
    chownSync(here(name), 0, GROUP);
    await ok(...args);
    expect(facts(name)).toBe(`660 ${GROUP}`);
  });

  it.each([
    ["v", "v.aerocorrect", ["vault", "parity", "%v", "export"]],
    ["m.gguf", "m.gguf.aerocorrect", ["correct", "gen", "%m.gguf", "--force"]],
    ["v", "X", ["vault", "repair", "%v", "-o", "%X", "--force"]],
    ["m.gguf", "X", ["correct", "repair", "%m.gguf", "-o", "%X", "--force"]],
  ] as const)("and what is made of %s, %s, has its group or lets in no group", async (name, made, args) => {
    rmSync(here(made), { force: true });
    if (args[1] === "repair" && name === "m.gguf") await ok("correct", "gen", "%m.gguf", "--force");
    chmodSync(here(name), 0o660);
    chownSync(here(name), 0, GROUP);
    const bits = (0o660 & ~process.umask()).toString(8);
    await ok(...args);
    expect(facts(made)).toBe(`${bits} ${GROUP}`);
    // Replaced: the same group stays, another one gets nothing that the file does not give to everybody.
    await ok(...args);
    expect(facts(made)).toBe(`${bits} ${GROUP}`);
    chownSync(here(made), 0, GROUP + 1);
    await ok(...args);
    expect(facts(made)).toBe(`600 ${GROUP + 1}`);
  });
});

/** The package `acl` has the program, and the file system must keep such lists. */
function hasLists(): boolean {
  const probe = mkdtempSync(join(tmpdir(), "tare-acl-"));
  try {
    execFileSync("setfacl", ["-m", "u:71234:r", probe], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  } finally {
    rmSync(probe, { recursive: true });
  }
}

const listed = hasLists();
if (!listed) console.warn("access lists are not tested: setfacl (package acl) is missing, or /tmp keeps no lists");

function access(path: string): readonly string[] {
  const text = execFileSync("getfacl", ["-cpE", "--", path], { encoding: "utf8" });
  return text.split("\n").filter((line) => line !== "");
}

describe.runIf(listed)("an access list", () => {
  it.each(["getfacl", "ls", "nothing"])("lets nobody in after a change, told by %s", async (program) => {
    const { getfacl, ls } = accessPrograms;
    if (program !== "getfacl") accessPrograms.getfacl = [];
    if (program === "nothing") accessPrograms.ls = [];
    try {
      // The group has nothing; the mask shows as its bits.
      for (const name of ["v", "m.gguf", "m.apr"]) {
        chmodSync(here(name), 0o600);
        execFileSync("setfacl", ["-m", "u:71234:rw", here(name)]);
        expect(facts(name)).toMatch(/^660 /);
      }
      const before = access(here("v"));
      await ok("vault", "mkdir", "%v", "d");
      if (program === "nothing") expect(facts("v")).toMatch(/^600 /);
      else expect(access(here("v"))).toEqual(before);
      await ok("vault", "compact", "%v");
      await ok("stamp", "%m.gguf", "--set", "general.name=x", "--rewrite");
      await ok("sign", "%m.apr", "--key", "@k.key");
      await ok("vault", "parity", "%v", "export");
      await ok("correct", "gen", "%m.gguf", "--force");
      for (const name of ["v", "m.gguf", "m.apr", "v.aerocorrect", "m.gguf.aerocorrect"])
        expect({ name, facts: facts(name) }).toMatchObject({ facts: expect.stringMatching(/^6[04]0 /) });
      for (const name of ["v", "m.gguf", "m.apr"]) expect(facts(name)).toMatch(/^600 /);
    } finally {
      Object.assign(accessPrograms, { getfacl, ls });
    }
  });

  it("that a folder gives to new files lets nobody read a copy", async () => {
    chmodSync(here("v"), 0o660);
    chmodSync(here("m.gguf"), 0o660);
    mkdirSync(here("d"));
    execFileSync("setfacl", ["-d", "-m", "u:71234:rwx", place, here("d")]);
    await ok("vault", "mkdir", "%v", "x");
    await ok("vault", "parity", "%v", "export");
    await ok("vault", "repair", "%v", "-o", "%d/copy");
    await ok("stamp", "%m.gguf", "--set", "general.name=x", "--rewrite");
    for (const name of ["v", "v.aerocorrect", "d/copy", "m.gguf"]) {
      const lines = access(here(name));
      const isOpen = lines.some((line) => line.startsWith("user:71234:")) && !lines.includes("mask::---");
      expect({ name, lines, isOpen }).toMatchObject({ isOpen: false });
    }
  });
});
