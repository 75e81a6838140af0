import {
  copyFileSync,
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
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { writeHeaderJournal } from "../../src/platform/node/vault/journal.ts";
import { makeXorshift } from "../builders/vault-content.ts";
import { callTare, type Run } from "./run-tare.ts";

let folder: string;
let env: Record<string, string>;
/** Above what is copied for every change. */
const LONG_BYTES = 17 << 20;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "tare-edges-"));
  env = { XDG_STATE_HOME: join(folder, "state"), TARE_PASSWORD: "" };
});

afterAll(() => rmSync(folder, { recursive: true }));

function run(...args: readonly string[]): Promise<Run> {
  return callTare(args, { cwd: folder, env });
}

async function ok(...args: readonly string[]): Promise<Run> {
  const done = await run(...args);
  expect({ args, code: done.code, err: done.err }).toMatchObject({ code: 0 });
  return done;
}

const bytesOf = (name: string): Buffer => readFileSync(join(folder, name));
const write = (name: string, bytes: Uint8Array | string): void => writeFileSync(join(folder, name), bytes);

describe("a change that is refused, of a long vault with gaps and a sidecar", () => {
  beforeAll(async () => {
    write("gap.bin", makeXorshift(5n, 5_000_000));
    write("long.bin", makeXorshift(6n, LONG_BYTES));
    await ok("vault", "create", "gaps.aerovault", "--no-encryption", "--profile", "fast");
    await ok("vault", "add", "gaps.aerovault", "gap.bin");
    await ok("vault", "add", "gaps.aerovault", "long.bin");
    await ok("vault", "mkdir", "gaps.aerovault", "sub/other");
    await ok("vault", "rm", "gaps.aerovault", "gap.bin");
    await ok("vault", "parity", "gaps.aerovault", "export");
  });

  it("leaves every byte as it was where a name clashes, and where an input is not what it was", async () => {
    const before = bytesOf("gaps.aerovault");
    write("first", makeXorshift(7n, 1_500_000));
    write("other", makeXorshift(8n, 1_500_000));
    const clash = await run("vault", "add", "gaps.aerovault", "first", "other", "--to", "sub");
    expect([clash.code, clash.err]).toEqual([2, expect.stringContaining("usage/vault.exists")]);
    expect(bytesOf("gaps.aerovault").equals(before)).toBe(true);
    expect(readdirSync(folder).filter((name) => name.startsWith("."))).toEqual([]);
  });

  it("keeps what a sidecar needs where the change was killed halfway", async () => {
    copyFileSync(join(folder, "gaps.aerovault"), join(folder, "killed.aerovault"));
    copyFileSync(join(folder, "gaps.aerovault.aerocorrect"), join(folder, "killed.aerovault.aerocorrect"));
    write("kill.cjs", KILL_AT_HEADER);
    write("more", makeXorshift(9n, 2_000_000));
    const killed = await callTare(["vault", "add", "killed.aerovault", "more"], {
      cwd: folder,
      env: { ...env, NODE_OPTIONS: `--require ${join(folder, "kill.cjs")}` },
    });
    expect(killed.code).toBe(null);
    const bytes = bytesOf("killed.aerovault");
    bytes[300] = (bytes[300] as number) ^ 1;
    write("killed.aerovault", bytes);
    await ok("vault", "repair", "killed.aerovault");
    expect((await ok("vault", "cat", "killed.aerovault", "long.bin")).stdout.equals(bytesOf("long.bin"))).toBe(true);
    await ok("vault", "scrub", "killed.aerovault");
  });
});

/** Ends the process, without a chance to tidy up, when everything but the header of the vault is written. */
const KILL_AT_HEADER = `
const fs = require("node:fs");
const { syncBuiltinESMExports } = require("node:module");
const open = fs.promises.open;
fs.promises.open = async (path, ...rest) => {
  if (String(path).endsWith(".tare-header") && rest[0] === "wx") process.kill(process.pid, "SIGKILL");
  return open(path, ...rest);
};
syncBuiltinESMExports();
`;

describe("a vault whose list of extensions is damaged", () => {
  it.each([
    ["names of both rows", (text: string) => text.replaceAll("error-correction", "errod-correction")],
    ["the name of one row", (text: string) => text.replace("error-correction.reed", "errur-correction.reed")],
    ["all of it", (text: string) => "[]".padEnd(text.length)],
    ["an algorithm", (text: string) => text.replace('"reed-solomon"', '"reef-solomon"')],
  ])("is not written to: %s", async (_, damage) => {
    await rmSync(join(folder, "p.aerovault"), { force: true });
    write("small", makeXorshift(10n, 100_000));
    await ok("vault", "create", "p.aerovault", "--no-encryption", "--parity", "20%");
    await ok("vault", "add", "p.aerovault", "small");
    const whole = bytesOf("p.aerovault");
    const [at, length] = [Number(whole.readBigUInt64LE(160)), Number(whole.readBigUInt64LE(168))];
    const text = whole.subarray(at, at + length).toString("latin1");
    const bytes = Buffer.from(whole);
    bytes.write(damage(text), at, "latin1");
    expect(bytes.equals(whole)).toBe(false);
    write("p.aerovault", bytes);
    for (const change of [
      ["vault", "mkdir", "p.aerovault", "x"],
      ["vault", "add", "p.aerovault", "small", "--to", "again"],
      ["vault", "compact", "p.aerovault"],
    ]) {
      const refused = await run(...change);
      expect([change[1], refused.code, refused.err]).toEqual([
        change[1],
        5,
        expect.stringContaining("aerovault.directory"),
      ]);
    }
    expect(bytesOf("p.aerovault").equals(bytes)).toBe(true);
    await ok("vault", "repair", "p.aerovault");
    expect(bytesOf("p.aerovault").equals(whole)).toBe(true);
    await ok("vault", "mkdir", "p.aerovault", "x");
  });
});

describe("a vault whose header a power failure tore", () => {
  /** The vault before and after a change, its header half of each, and the journal beside it. */
  async function tear(name: string): Promise<Buffer> {
    await rmSync(join(folder, name), { force: true });
    await ok("vault", "create", name, "--no-encryption");
    write("m.bin", "contents");
    await ok("vault", "add", name, "m.bin");
    const before = bytesOf(name);
    await ok("vault", "mkdir", name, "x");
    const after = bytesOf(name);
    const headers = {
      before: new Uint8Array(before.subarray(0, 1024)),
      after: new Uint8Array(after.subarray(0, 1024)),
    };
    before.copy(after, 512, 512, 1024);
    write(name, after);
    await writeHeaderJournal(join(folder, name), headers);
    return Buffer.from(headers.after);
  }

  it.each([
    ["by its name", ["vault", "ls", "torn.aerovault"]],
    ["by a link in another folder", ["vault", "ls", "links/k.aerovault"]],
    ["by what is in it", ["vault", "cat", "torn.aerovault", "m.bin"]],
    ["as an outer part of a target", ["map", "torn.aerovault::m.bin"]],
  ])("is completed when it is opened %s", async (_, args) => {
    const header = await tear("torn.aerovault");
    mkdirSync(join(folder, "links"), { recursive: true });
    rmSync(join(folder, "links", "k.aerovault"), { force: true });
    symlinkSync("../torn.aerovault", join(folder, "links", "k.aerovault"));
    const done = await run(...args);
    expect(done.err).toContain("completed a change that had been interrupted");
    expect(bytesOf("torn.aerovault").subarray(0, 1024).equals(header)).toBe(true);
  });

  it("is read without a change where another machine has the lock", async () => {
    await tear("held.aerovault");
    write(".held.aerovault.lock", "pid=1 created_at=2026-01-01T00:00:00Z host=elsewhere boot=b ns=1 machine=c\n");
    const found = bytesOf("held.aerovault");
    expect((await ok("vault", "ls", "held.aerovault")).out).toContain("m.bin");
    expect(bytesOf("held.aerovault").equals(found)).toBe(true);
  });
});
