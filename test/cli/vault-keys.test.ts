import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { callTare, type Run } from "./run-tare.ts";

let folder: string;
let env: Record<string, string>;
let count = 0;
const P = ["--password-file", "pw"];
const P2 = ["--password-file", "pw2"];
const at = (name: string): string => join(folder, name);

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tare-keys-"));
  env = { XDG_STATE_HOME: at("state"), TARE_PASSWORD: "" };
  writeFileSync(at("pw"), "correct horse\n");
  writeFileSync(at("pw2"), "Tr0ub4dor & 3");
  writeFileSync(at("short"), "too short\n");
  writeFileSync(at("note.txt"), "some text");
  await ok("vault", "create", "base.aerovault", ...P);
  await ok("vault", "add", "base.aerovault", "note.txt", ...P);
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

/** A copy of the vault for one test. */
function copy(): string {
  const name = `v${count++}.aerovault`;
  copyFileSync(at("base.aerovault"), at(name));
  return name;
}

interface KeyDocument {
  readonly id: string;
  readonly recovery?: string;
  readonly madeFile?: string;
  readonly endedKeys: readonly { readonly label: string | null }[];
  readonly warnings?: readonly { readonly code: string }[];
  readonly keys: readonly {
    readonly id: string;
    readonly label: string | null;
    readonly kind: string;
    readonly state?: string;
  }[];
}

async function json(schema: string, ...args: readonly string[]): Promise<KeyDocument> {
  const document = JSON.parse((await ok(...args, "--json")).out) as KeyDocument;
  const text = readFileSync(new URL(`../../schemas/${schema}.schema.json`, import.meta.url), "utf8");
  const validate = new Ajv2020({ strict: false }).compile(JSON.parse(text) as object);
  expect(validate(document), JSON.stringify(validate.errors)).toBe(true);
  return document;
}

describe("tare vault key", () => {
  it("adds passwords, key files and recovery keys, which open everywhere, and names them", async () => {
    const vault = copy();
    await ok("vault", "key", "add", vault, ...P, "--new-password-file", "pw2", "--label", "ann");
    const made = await json("vault-key", "vault", "key", "add", vault, ...P2, "--new-key-file", "team.key");
    expect(made.madeFile).toBe("team.key");
    expect(readFileSync(at("team.key"), "utf8")).toMatch(/^[0-9a-f]{64}\n$/);
    expect(statSync(at("team.key")).mode & 0o777).toBe(0o600);
    const key = ["--key-file", "team.key"];
    const paper = await json("vault-key", "vault", "key", "add", vault, ...key, "--recovery", "--label", "paper");
    expect(paper.recovery).toMatch(/^([0-9A-HJKMNP-TV-Z]{4}-){6}[0-9A-HJKMNP-TV-Z]{4}$/);
    writeFileSync(at("paper"), `${paper.recovery?.toLowerCase().replaceAll("-", " ")}\n`);
    for (const given of [P, P2, key, ["--password-file", "paper"]]) {
      expect((await ok("vault", "cat", vault, "note.txt", ...given)).out).toBe("some text");
      await ok("vault", "scrub", vault, ...given);
    }
    await ok("vault", "mkdir", vault, "made", ...key);
    expect((await run(["vault", "ls", vault], { TARE_KEY_FILE: "team.key" })).code).toBe(0);
    const { keys } = await json("vault-key", "vault", "key", "ls", vault, ...key);
    expect(keys.map(({ kind, label }) => [kind, label])).toEqual([
      ["password", null],
      ["password", "ann"],
      ["key-file", null],
      ["recovery", "paper"],
    ]);
    expect((await json("vault-info", "vault", "info", vault, ...key)).keys).toEqual(keys);
    const text = (await ok("vault", "info", vault, ...key)).out;
    expect(text).toContain("recovery");
    expect(text).not.toContain("tare.key.");
    expect((await ok("vault", "key", "ls", vault, ...P)).out).toMatch(/^header +password/);
  });

  it("shows a recovery key also with -q, and none in a dry run, which makes no key file either", async () => {
    const vault = copy();
    const before = readFileSync(at(vault));
    const add = ["vault", "key", "add", vault, ...P];
    expect((await ok(...add, "--recovery", "--dry-run")).out).not.toMatch(/-....-/);
    await ok(...add, "--new-key-file", "dry.key", "--dry-run");
    expect(existsSync(at("dry.key"))).toBe(false);
    expect(readFileSync(at(vault)).equals(before)).toBe(true);
    expect((await ok(...add, "--recovery", "-q")).out).toMatch(/-....-/);
  });

  it("refuses what is no key, and what is not there", async () => {
    const vault = copy();
    const before = readFileSync(at(vault));
    const key = ["vault", "key"];
    for (const [code, text, args] of [
      [2, "usage/arguments", [...key, "make", vault, ...P]],
      [2, "usage/arguments", [...key, "rm", vault, ...P]],
      [2, "usage/arguments", [...key, "ls", vault, "x", ...P]],
      [2, "usage/arguments", [...key, "ls", vault, "--recovery", ...P]],
      [2, "usage/vault.key", [...key, "add", vault, ...P]],
      [2, "usage/vault.key", [...key, "add", vault, "--recovery", "--new-key-file", "a.key", ...P]],
      [2, "usage/vault.key-file", [...key, "add", vault, "--new-key-file", "short", ...P]],
      [2, "usage/vault.password", [...key, "add", vault, "--new-password-file", "note.short", ...P]],
      [2, "usage/vault.key", [...key, "add", vault, "--recovery", "--label", "header", ...P]],
      [2, "usage/vault.key", [...key, "rm", vault, "header", ...P]],
      [9, "usage/vault.key-not-found", [...key, "rm", vault, "ann", ...P]],
      [11, "usage/password.wrong", [...key, "add", vault, "--recovery", ...P2]],
      [11, "usage/password.wrong", ["vault", "ls", vault, "--key-file", "team.none"]],
    ] as const) {
      writeFileSync(at("note.short"), "seven b");
      const done = await run([...args, "--json"]);
      expect({ args, code: done.code, out: done.out }).toMatchObject({ code });
      expect(done.out).toContain(text);
    }
    expect(existsSync(at("a.key"))).toBe(false);
    expect(readFileSync(at(vault)).equals(before)).toBe(true);
    await ok("vault", "create", "plain.aerovault", "--no-encryption");
    expect((await run([...key, "add", "plain.aerovault", "--recovery"])).code).toBe(6);
  });

  it("makes no key file for a vault that cannot be changed", async () => {
    const vault = copy();
    const args = ["vault", "key", "add", vault, ...P2, "--new-key-file", "lost.key"];
    expect((await run(args)).code).toBe(11);
    expect(existsSync(at("lost.key"))).toBe(false);
  });

  it("removes a key, and says each time that this revokes nothing", async () => {
    const vault = copy();
    await ok("vault", "key", "add", vault, ...P, "--new-password-file", "pw2", "--label", "ann");
    const done = await ok("vault", "key", "rm", vault, "ann", ...P2);
    expect(done.err).toContain("revokes nothing");
    expect((await run(["vault", "ls", vault, ...P2])).code).toBe(11);
    expect((await json("vault-key", "vault", "key", "ls", vault, ...P)).keys).toHaveLength(1);
  });
});

describe("tare vault passwd", () => {
  it("leaves the other keys, and names those that --rekey ends", async () => {
    const vault = copy();
    await ok("vault", "key", "add", vault, ...P, "--new-key-file", "kept.key", "--label", "build machine");
    writeFileSync(at("pw3"), "another one 7");
    const key = ["--key-file", "kept.key"];
    const first = await json("vault-passwd", "vault", "passwd", vault, ...key, "--new-password-file", "pw3");
    expect(first.endedKeys).toEqual([]);
    await ok("vault", "ls", vault, ...key);
    expect((await run(["vault", "ls", vault, ...P])).code).toBe(11);
    const rekey = ["vault", "passwd", vault, "--password-file", "pw3", "--new-password-file", "pw", "--rekey"];
    const done = await json("vault-passwd", ...rekey);
    expect(done.endedKeys).toMatchObject([{ label: "build machine" }]);
    expect((await run(["vault", "ls", vault, ...key])).code).toBe(11);
    await ok("vault", "ls", vault, ...P);
    expect((await json("vault-key", "vault", "key", "ls", vault, ...P)).keys).toHaveLength(1);
  });
});

describe("slots that somebody changed", () => {
  /** The vault without its last row of a slot: with spaces in its place, as its directory is as long as the header says. */
  function withoutLastSlot(vault: string): void {
    const bytes = readFileSync(at(vault));
    const start = bytes.lastIndexOf(',{"extension_id":"tare.key.');
    const end = bytes.indexOf("]", start);
    bytes.fill(" ", start, end);
    writeFileSync(at(vault), bytes);
  }

  it("are a warning at every opening, in the document too, until they are taken off the list", async () => {
    const vault = copy();
    await ok("vault", "key", "add", vault, ...P, "--new-password-file", "pw2", "--label", "ann");
    await ok("vault", "key", "add", vault, ...P, "--recovery", "--label", "paper");
    withoutLastSlot(vault);
    for (const args of [
      ["ls", vault],
      ["info", vault],
      ["mkdir", vault, "made"],
      ["scrub", vault],
    ]) {
      const done = await ok("vault", ...args, ...P);
      expect(done.err).toMatch(/warning: .*"paper".*\[integrity\/aerovault\.slot-gone\]/);
      expect(done.err.match(/slot-gone/g)).toHaveLength(1);
    }
    const info = await json("vault-info", "vault", "info", vault, ...P);
    expect(info.warnings?.map(({ code }) => code)).toEqual(["integrity/aerovault.slot-gone"]);
    expect(info.keys[2]).toMatchObject({ label: "paper", state: "gone" });
    await ok("vault", "key", "rm", vault, "paper", ...P2);
    expect((await ok("vault", "ls", vault, ...P)).err).toBe("");
  });

  it("a damaged list of extensions is healed, and repaired, with the keys that are left", async () => {
    const vault = copy();
    await ok("vault", "key", "add", vault, ...P, "--new-password-file", "pw2", "--label", "ann");
    await ok("vault", "key", "add", vault, ...P, "--new-key-file", "left.key", "--label", "build machine");
    const bytes = readFileSync(at(vault));
    bytes[bytes.lastIndexOf('"critical"')] = 0x41;
    writeFileSync(at(vault), bytes);
    const read = await ok("vault", "ls", vault, ...P2);
    expect(read.err).toContain("integrity/aerovault.healed");
    expect(read.err).toContain("build machine");
    expect((await run(["vault", "mkdir", vault, "made", ...P])).code).toBe(4);
    const repaired = await ok("vault", "repair", vault, ...P);
    expect(repaired.err).toContain("build machine");
    await ok("vault", "scrub", vault, ...P2);
    await ok("vault", "mkdir", vault, "made", ...P2);
    expect((await run(["vault", "ls", vault, "--key-file", "left.key"])).code).toBe(11);
  });
});
