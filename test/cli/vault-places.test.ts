import { copyFileSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { callTare, type Run } from "./run-tare.ts";
import { smallSafetensors } from "./small-models.ts";

/** What is remembered of vaults and of the places where they were: somebody without the key may exchange the file there. */

let folder: string;
let env: Record<string, string>;
let made = 0;
const SECRET = "a secret that must not be stored in clear";

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tare-places-"));
  env = { XDG_STATE_HOME: join(folder, "state"), TARE_PASSWORD: "" };
  writeFileSync(join(folder, "pw"), "correct horse\n");
  writeFileSync(join(folder, "key.txt"), SECRET);
  writeFileSync(join(folder, "a.txt"), "mine\n");
  await ok("vault", "create", "own", "--profile", "fast", "--password-file", "pw");
  await ok("vault", "add", "own", "a.txt", "--password-file", "pw");
  writeFileSync(join(folder, "a.txt"), "forged\n");
  await ok("vault", "create", "forged", "--profile", "fast", "--no-encryption");
  await ok("vault", "add", "forged", "a.txt");
});

afterAll(() => rmSync(folder, { recursive: true }));

function run(args: readonly string[], more: Record<string, string> = {}): Promise<Run> {
  return callTare(args, { cwd: folder, env: { ...env, ...more } });
}

async function ok(...args: readonly string[]): Promise<Run> {
  const done = await run(args);
  expect({ args, code: done.code, err: done.err }).toMatchObject({ code: 0 });
  return done;
}

/** The name of a forged vault, in a place where the own one was seen before or not. */
async function exchanged(seen: "seen" | "unseen"): Promise<string> {
  const name = `v${made++}`;
  if (seen === "seen") {
    copyFileSync(join(folder, "own"), join(folder, name));
    await ok("vault", "ls", name, "--password-file", "pw");
  }
  copyFileSync(join(folder, "forged"), join(folder, name));
  return name;
}

describe("a vault without encryption", () => {
  const verbs: readonly (readonly string[])[] = [
    ["vault", "add", "@", "key.txt"],
    ["vault", "add", "@", "key.txt", "--dry-run"],
    ["vault", "cat", "@", "a.txt"],
    ["vault", "ls", "@", "--json"],
    ["vault", "extract", "@", "-o", "out"],
    ["vault", "scrub", "@"],
    ["vault", "repair", "@"],
    ["vault", "parity", "@", "export"],
    ["vault", "compact", "@"],
    ["verify", "@"],
    ["inspect", "@"],
    ["cat", "@", "a.txt"],
    ["view", "@", "--dry-run"],
  ];

  it.each(verbs)("is refused where a password is given: %s %s", async (...args) => {
    const name = await exchanged("unseen");
    const named = args.map((arg) => (arg === "@" ? name : arg));
    const byFile = await run([...named, "--password-file", "pw"]);
    expect({ code: byFile.code, err: byFile.err }).toMatchObject({ code: 11 });
    expect(`${byFile.err}${byFile.out}`).toContain("usage/vault.unencrypted");
    const byEnvironment = await run(named, { TARE_PASSWORD_COMMAND: "cat pw" });
    expect(byEnvironment.code).toBe(11);
    expect(readFileSync(join(folder, name)).equals(readFileSync(join(folder, "forged")))).toBe(true);
  });

  it("is refused without a password where the place had an encrypted one, by link and inside too", async () => {
    const name = await exchanged("seen");
    symlinkSync(name, join(folder, "link"));
    for (const args of [
      ["vault", "cat", name, "a.txt"],
      ["vault", "add", name, "key.txt"],
      ["vault", "scrub", "link"],
      ["inspect", `${name}::a.txt`],
      ["view", name, "--dry-run"],
    ]) {
      const refused = await run(args);
      expect({ args, code: refused.code, err: refused.err }).toMatchObject({ code: 11 });
      expect(refused.err).toContain("usage/vault.was-encrypted");
      expect(refused.out).not.toContain("forged");
    }
    expect(readFileSync(join(folder, name)).includes(SECRET)).toBe(false);
  });

  it("is opened where the user says that it is meant, which is remembered", async () => {
    const name = await exchanged("seen");
    expect((await ok("vault", "cat", name, "a.txt", "--password-file", "pw", "--no-encryption")).out).toBe("forged\n");
    expect((await ok("vault", "cat", name, "a.txt")).out).toBe("forged\n");
    // A password means an encrypted vault, whatever was said before.
    const refused = await run(["vault", "cat", name, "a.txt", "--password-file", "pw"]);
    expect(refused).toMatchObject({ code: 11, out: "" });
    expect(refused.err).toContain("usage/vault.unencrypted");
    await ok("vault", "add", name, "key.txt");
  });

  it("that is made anew at the place of an encrypted one is what the user asked for", async () => {
    const name = await exchanged("seen");
    await ok("vault", "create", name, "--no-encryption", "--force");
    await ok("vault", "add", name, "a.txt");
  });

  it("inside a vault that the password opened is fine", async () => {
    const name = await exchanged("unseen");
    copyFileSync(join(folder, "own"), join(folder, "outer"));
    await ok("vault", "add", "outer", name, "--password-file", "pw");
    expect((await ok("vault", "cat", `outer::${name}`, "a.txt", "--password-file", "pw")).out).toBe("forged\n");
  });
});

describe("an older state of a vault", () => {
  it("is told by every command, for what is inside and in documents; a newer one never is", async () => {
    writeFileSync(join(folder, "m.safetensors"), smallSafetensors());
    const states: Uint8Array[] = [];
    await ok("vault", "create", "w", "--profile", "fast", "--password-file", "pw");
    await ok("vault", "add", "w", "m.safetensors", "a.txt", "--password-file", "pw");
    for (const [from, to] of ["ab", "ba", "ab"].map((word) => [...word].map((letter) => `${letter}.txt`))) {
      await ok("vault", "mv", "w", from as string, to as string, "--password-file", "pw");
      states.push(readFileSync(join(folder, "w")));
    }
    const elsewhere = { XDG_STATE_HOME: join(folder, "elsewhere") };
    const at = async (state: number, ...args: readonly string[]): Promise<Run> => {
      writeFileSync(join(folder, "w"), states[state] as Uint8Array);
      const done = await run([...args, "--password-file", "pw"], elsewhere);
      expect({ args, code: done.code, err: done.err }).toMatchObject({ code: 0 });
      return done;
    };
    for (const state of [0, 1, 2]) expect((await at(state, "vault", "ls", "w")).err).toBe("");
    for (const state of [0, 1]) {
      expect((await at(state, "vault", "ls", "w", "-q")).err).toContain("older than the one last seen");
      expect((await at(state, "cat", "w::m.safetensors", "model.norm.weight", "-o", `t${state}`)).err).toContain(
        "older than",
      );
      for (const args of [
        ["vault", "ls", "w"],
        ["vault", "info", "w"],
        ["inspect", "w::m.safetensors"],
        ["ls", "w::m.safetensors"],
        ["vault", "mkdir", "w", "d", "--dry-run"],
      ]) {
        const document = JSON.parse((await at(state, ...args, "--json")).out) as { warnings?: { code: string }[] };
        expect({ args, codes: document.warnings?.map(({ code }) => code) }).toMatchObject({
          codes: expect.arrayContaining(["integrity/vault.older"]),
        });
      }
    }
    expect((await at(2, "vault", "ls", "w")).err).toBe("");
  });
});
