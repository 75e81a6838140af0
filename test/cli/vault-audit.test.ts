import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { nativeEngine } from "../../src/platform/node/engine/native.ts";
import { VAULT_PASSWORD } from "../builders/crafted-vault.ts";
import { craftVault1 } from "../builders/vault1.ts";
import { craftVault2 } from "../builders/vault2.ts";
import { callTare, type Run } from "./run-tare.ts";

/** What audits of the reference found, where only the whole program shows it. */

let folder: string;
let env: Record<string, string>;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "tare-audit-"));
  env = { XDG_STATE_HOME: join(folder, ".state"), TARE_PASSWORD: "" };
});
afterAll(() => rmSync(folder, { recursive: true }));

function run(...args: readonly string[]): Promise<Run> {
  return callTare(args, { cwd: folder, env });
}

/** Visible files, and hidden ones that are not the program's memory. */
function names(): string[] {
  return readdirSync(folder).filter((name) => name !== ".state");
}

test("a vault with a bare name is replaced in one step, with nothing beside it at any time later", async () => {
  expect((await run("vault", "create", "bare.aerovault", "--no-encryption")).code).toBe(0);
  writeFileSync(join(folder, "file"), "content\n");
  expect((await run("vault", "add", "bare.aerovault", "file")).code).toBe(0);
  const { ino } = statSync(join(folder, "bare.aerovault"));
  expect((await run("vault", "compact", "bare.aerovault")).code).toBe(0);
  // Another file under the same name: written whole, then renamed.
  expect(statSync(join(folder, "bare.aerovault")).ino).not.toBe(ino);
  expect(names().sort()).toEqual(["bare.aerovault", "file"]);
  expect((await run("vault", "cat", "bare.aerovault", "file")).out).toBe("content\n");
});

test("no verb takes a password from its arguments, and none is ever said", async () => {
  const secret = "Xyzzy-plugh-plover-1977";
  writeFileSync(join(folder, "pw"), secret);
  const create = await run("vault", "create", "secret.aerovault", "--password-file", "pw");
  expect(create.code).toBe(0);
  for (const verb of ["create", "ls", "add", "extract", "cat", "info", "scrub", "repair", "passwd", "mkdir"]) {
    const refused = await run("vault", verb, "secret.aerovault", "--password", secret);
    expect({ verb, code: refused.code }).toEqual({ verb, code: 2 });
    expect(`${refused.out}${refused.err}`).not.toContain(secret);
    expect((await run("vault", verb, "--help")).out).not.toMatch(/--(new-)?password[ =](?!FILE)[A-Z]/);
  }
  const wrong = await callTare(["vault", "ls", "secret.aerovault", "-v"], {
    cwd: folder,
    env: { ...env, TARE_PASSWORD: `${secret}!` },
  });
  expect(wrong.code).toBe(11);
  const state = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const kept = state.filter(({ name }) => name !== "pw").map((entry) => join(entry.parentPath, entry.name));
  expect(kept.length).toBeGreaterThan(0);
  for (const path of kept) expect(readFileSync(path).includes(secret), path).toBe(false);
  for (const said of [create, wrong]) expect(`${said.out}${said.err}`).not.toContain(secret);
});

test("what is weaker is called what it is", async () => {
  const created = await run("vault", "create", "open.aerovault", "--no-encryption");
  expect(created.out + created.err).toContain("without encryption");
  writeFileSync(join(folder, "password"), VAULT_PASSWORD);
  writeFileSync(join(folder, "two.aerovault"), await craftVault2([], { engine: await nativeEngine() }));
  writeFileSync(join(folder, "one.aerovault"), await craftVault1([{ path: "a", bytes: new Uint8Array(9) }]));
  const info = async (
    name: string,
    ...flags: readonly string[]
  ): Promise<{ version: string; facts: Record<string, string> }> =>
    JSON.parse((await run("vault", "info", name, "--json", "--password-file", "password", ...flags)).out);
  const [open, two, one] = [
    await info("open.aerovault", "--no-encryption"),
    await info("two.aerovault"),
    await info("one.aerovault"),
  ] as const;
  expect([open.version, open.facts["encryption"]]).toEqual(["3", "none"]);
  expect([two.version, two.facts["encryption"]]).toEqual(["2", expect.stringContaining("Argon2id")]);
  expect([one.version, one.facts["encryption"]]).toEqual(["1", expect.stringContaining("quickly guessed")]);
});

test("a file that is no vault is named as such by verbs that write, and left alone", async () => {
  for (const [name, content] of [
    ["short.txt", "1\n"],
    ["long.txt", "not a vault, ".repeat(200)],
  ] as const) {
    writeFileSync(join(folder, name), content);
    for (const args of [
      ["mkdir", name, "a"],
      ["compact", name],
      ["repair", name],
      ["parity", name, "export"],
    ]) {
      expect({ args, code: (await run("vault", ...args)).code }).toEqual({ args, code: 6 });
    }
    expect(readFileSync(join(folder, name), "utf8")).toBe(content);
  }
});

test("a vault behind a URL or inside another one is not changed, and that is said", async () => {
  for (const target of ["http://127.0.0.1:9/v.aerovault", "bare.aerovault::inner.aerovault"]) {
    const { code, err } = await run("vault", "mkdir", target, "a");
    expect({ target, code }).toEqual({ target, code: 6 });
    expect(err).toContain("unsupported/vault.place");
  }
});

test("a new password that other programs could not be given is refused, and an old one still opens", async () => {
  const bad = {
    latin1: Buffer.from("passw\xf6rter-lang", "latin1"),
    marked: Buffer.from("\ufeffcorrect horse battery"),
  };
  for (const [name, bytes] of Object.entries(bad)) {
    writeFileSync(join(folder, name), bytes);
    const refused = await run("vault", "create", `${name}.aerovault`, "--password-file", name);
    expect({ name, code: refused.code }).toEqual({ name, code: 2 });
    expect(readdirSync(folder)).not.toContain(`${name}.aerovault`);
  }
  writeFileSync(join(folder, "word"), "correct horse\n");
  expect((await run("vault", "create", "kept.aerovault", "--password-file", "word")).code).toBe(0);
  const changed = await run(
    "vault",
    "passwd",
    "kept.aerovault",
    "--password-file",
    "word",
    "--new-password-file",
    "marked",
  );
  expect(changed.code).toBe(2);
  expect((await run("vault", "ls", "kept.aerovault", "--password-file", "word")).code).toBe(0);
});

test("the password of a command is asked for once, however many vaults it opens", async () => {
  writeFileSync(join(folder, "word"), "correct horse\n");
  const once = { ...env, TARE_PASSWORD_COMMAND: "echo asked >> asked; cat word" };
  expect((await run("vault", "create", "one2.aerovault", "--password-file", "word")).code).toBe(0);
  expect((await callTare(["vault", "diff", "one2.aerovault", "one2.aerovault"], { cwd: folder, env: once })).code).toBe(
    0,
  );
  expect(readFileSync(join(folder, "asked"), "utf8")).toBe("asked\n");
});
