import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { lockInode } from "../../src/platform/node/files/lock.ts";
import { lockVault } from "../../src/platform/node/vault/lock.ts";
import { makeXorshift } from "../builders/vault-content.ts";
import { callTare, type Run } from "./run-tare.ts";

let folder: string;
let env: Record<string, string>;
const NOISE = makeXorshift(77n, 300_000);
const P = ["--password-file", "pw"];
const P2 = ["--password-file", "pw2"];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tare-recovery-"));
  env = { XDG_STATE_HOME: join(folder, "state"), TARE_PASSWORD: "" };
  writeFileSync(join(folder, "pw"), "correct horse\n");
  writeFileSync(join(folder, "pw2"), "Tr0ub4dor");
  writeFileSync(join(folder, "data.bin"), NOISE);
  await ok("vault", "create", "own.aerovault", "--parity", "20%", ...P);
  await ok("vault", "add", "own.aerovault", "data.bin", ...P);
  await ok("vault", "create", "bare.aerovault", ...P);
  await ok("vault", "add", "bare.aerovault", "data.bin", ...P);
  await ok("vault", "parity", "bare.aerovault", "export", "--parity", "25%", ...P);
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

/** The one document of a verb, as its schema has it. */
async function json(verb: string, ...args: readonly string[]): Promise<Record<string, unknown>> {
  const done = await run(...verb.split(" "), ...args, "--json");
  const document: unknown = JSON.parse(done.out);
  const schema = readFileSync(new URL(`../../schemas/${verb.replace(" ", "-")}.schema.json`, import.meta.url), "utf8");
  const validate = new Ajv2020({ strict: false }).compile(JSON.parse(schema) as object);
  expect(validate(document), JSON.stringify(validate.errors)).toBe(true);
  return { ...(document as Record<string, unknown>), code: done.code, err: done.err };
}

/** Preloaded: nothing takes the name of a sidecar, or gives it up. */
const STUBBORN = `const { promises } = require("node:fs");
for (const name of ["rename", "unlink"]) {
  const original = promises[name];
  promises[name] = async (...paths) => {
    if (!paths.some((path) => /aerocorrect$/.test(path))) return original(...paths);
    throw Object.assign(new Error("not permitted"), { code: "EPERM", errno: -1, syscall: name });
  };
}
require("node:module").syncBuiltinESMExports();`;

const bytesOf = (name: string): Buffer => readFileSync(join(folder, name));
const write = (name: string, bytes: Uint8Array | string): void => writeFileSync(join(folder, name), bytes);

/** A copy with some bytes flipped; its sidecar comes along where the original has one. */
function hurt(from: string, to: string, ...offsets: readonly number[]): Buffer {
  const bytes = bytesOf(from);
  for (const offset of offsets) bytes[offset] = (bytes[offset] as number) ^ 0x55;
  write(to, bytes);
  const beside = join(folder, `${from}.aerocorrect`);
  rmSync(join(folder, `${to}.aerocorrect`), { recursive: true, force: true });
  if (existsSync(beside)) copyFileSync(beside, join(folder, `${to}.aerocorrect`));
  return bytes;
}

/** The middle of the data section of a vault of one file. */
const INSIDE = 150_000;

describe("tare vault scrub and repair", () => {
  it("find damage, say what would be done, and heal it in place", async () => {
    const damaged = hurt("own.aerovault", "a.aerovault", INSIDE, INSIDE + 9);
    expect(await json("vault scrub", "a.aerovault", ...P)).toMatchObject({ ok: false, code: 5 });
    const plan = await json("vault repair", "a.aerovault", "--dry-run", ...P);
    expect(plan).toMatchObject({ state: "damaged", repaired: false, damagedBlocks: 1, origins: ["embedded"], code: 0 });
    expect(bytesOf("a.aerovault").equals(damaged)).toBe(true);
    const done = await json("vault repair", "a.aerovault", ...P);
    expect(done).toMatchObject({ state: "damaged", repaired: true, lostFiles: [], code: 0 });
    expect(bytesOf("a.aerovault").equals(bytesOf("own.aerovault"))).toBe(true);
    expect((await ok("vault", "cat", "a.aerovault", "data.bin", ...P)).stdout.equals(NOISE)).toBe(true);
    expect(await json("vault repair", "a.aerovault", ...P)).toMatchObject({
      state: "intact",
      repaired: false,
      code: 0,
    });
  });

  it("tell the truth where damage remains: exit 5, the files named, the vault as it was", async () => {
    const damaged = hurt("own.aerovault", "b.aerovault", 40_000, 80_000, 120_000, 160_000, 200_000);
    for (const flags of [["--dry-run"], []]) {
      const done = await json("vault repair", "b.aerovault", ...flags, ...P);
      expect(done).toMatchObject({ state: "lost", repaired: false, lostFiles: ["data.bin"], code: 5 });
    }
    expect((await run("vault", "repair", "b.aerovault", ...P)).out).toContain("lost: data.bin");
    expect(bytesOf("b.aerovault").equals(damaged)).toBe(true);
  });

  it("-o writes a healed copy and leaves the vault alone", async () => {
    const damaged = hurt("own.aerovault", "c.aerovault", INSIDE);
    await ok("vault", "repair", "c.aerovault", "-o", "healed.aerovault", ...P);
    expect(bytesOf("healed.aerovault").equals(bytesOf("own.aerovault"))).toBe(true);
    expect(bytesOf("c.aerovault").equals(damaged)).toBe(true);
    expect((await run("vault", "repair", "c.aerovault", "-o", "healed.aerovault", ...P)).code).toBe(2);
  });

  it("a wrong password is no damage, and a missing one is asked for", async () => {
    hurt("own.aerovault", "d.aerovault", INSIDE);
    expect((await run("vault", "repair", "d.aerovault", ...P2)).code).toBe(11);
    expect((await run("vault", "repair", "d.aerovault")).code).toBe(11);
  });

  it("reading a vault whose manifest or header is damaged works, with a warning each time", async () => {
    const { manifestOffset } = manifestOf("own.aerovault");
    hurt("own.aerovault", "f.aerovault", manifestOffset + 50);
    hurt("bare.aerovault", "g.aerovault", 0, 20, 970);
    for (const name of ["f.aerovault", "g.aerovault"]) {
      const listed = await ok("vault", "ls", name, ...P);
      expect(listed.out).toContain("data.bin");
      expect(listed.err).toMatch(/warning: The (manifest|header) of the vault is damaged.*tare vault repair/);
      await ok("vault", "extract", name, "-o", `out-${name}`, ...P);
      expect(bytesOf(`out-${name}/data.bin`).equals(NOISE)).toBe(true);
      expect((await run("vault", "scrub", name, ...P)).code).toBe(5);
      await ok("vault", "repair", name, ...P);
      await ok("vault", "scrub", name, ...P);
    }
    expect(bytesOf("g.aerovault").equals(bytesOf("bare.aerovault"))).toBe(true);
  });
});

function manifestOf(name: string): { readonly manifestOffset: number } {
  return { manifestOffset: Number(bytesOf(name).readBigUInt64LE(144)) };
}

describe("never worse than before", () => {
  it("a write to a damaged vault with parity is refused, and the vault can still be healed", async () => {
    const damaged = hurt("own.aerovault", "h.aerovault", INSIDE);
    const refused = await run("vault", "mkdir", "h.aerovault", "new", ...P);
    expect([refused.code, refused.err]).toEqual([5, expect.stringContaining("tare vault repair")]);
    const other = await run("vault", "passwd", "h.aerovault", "--new-password-file", "pw2", ...P);
    expect(other.code).toBe(5);
    expect(bytesOf("h.aerovault").equals(damaged)).toBe(true);
    await ok("vault", "repair", "h.aerovault", ...P);
  });

  it("a write to a damaged vault with a sidecar is refused: afterwards nothing could heal it", async () => {
    hurt("bare.aerovault", "i.aerovault", INSIDE);
    expect((await run("vault", "mkdir", "i.aerovault", "new", ...P)).code).toBe(5);
    await ok("vault", "repair", "i.aerovault", ...P);
    const changed = await ok("vault", "mkdir", "i.aerovault", "new", ...P);
    expect(changed.err).toContain("tare vault parity VAULT export renews it");
  });

  it("a write to a vault whose manifest was healed is refused", async () => {
    hurt("own.aerovault", "j.aerovault", manifestOf("own.aerovault").manifestOffset + 30);
    expect((await run("vault", "mkdir", "j.aerovault", "new", ...P)).code).toBe(5);
  });

  it("parity is not exported from a damaged vault, nor embedded into one, nor stripped from it", async () => {
    hurt("own.aerovault", "k.aerovault", INSIDE);
    for (const action of ["export", "embed", "strip"]) {
      const refused = await run("vault", "parity", "k.aerovault", action, "--force", ...P);
      expect([action, refused.code]).toEqual([action, 5]);
    }
    expect(existsSync(join(folder, "k.aerovault.aerocorrect"))).toBe(false);
    await ok("vault", "repair", "k.aerovault", ...P);
  });

  it.each([
    ["empty", (path: string) => writeFileSync(path, "")],
    ["garbage", (path: string) => writeFileSync(path, NOISE)],
    ["a directory", (path: string) => mkdirSync(path)],
    ["of the file as a whole", undefined],
    ["of another vault", (path: string) => copyFileSync(join(folder, "bare.aerovault.aerocorrect"), path)],
  ])("a sidecar that is %s does not shadow the parity of the vault", async (_, make) => {
    hurt("own.aerovault", "l.aerovault");
    if (make === undefined) await ok("correct", "gen", "l.aerovault");
    else make(join(folder, "l.aerovault.aerocorrect"));
    const bytes = bytesOf("l.aerovault");
    bytes[INSIDE] = (bytes[INSIDE] as number) ^ 1;
    write("l.aerovault", bytes);
    expect(await json("vault repair", "l.aerovault", ...P)).toMatchObject({
      repaired: true,
      origins: ["embedded"],
      code: 0,
    });
    expect(bytesOf("l.aerovault").equals(bytesOf("own.aerovault"))).toBe(true);
    rmSync(join(folder, "l.aerovault.aerocorrect"), { recursive: true });
  });

  it("after passwd an old sidecar does not bring the old password back: it is made anew, and said", async () => {
    hurt("bare.aerovault", "m.aerovault");
    const old = bytesOf("m.aerovault.aerocorrect");
    const changed = await ok("vault", "passwd", "m.aerovault", "--new-password-file", "pw2", ...P);
    expect(changed.err).toContain('"m.aerovault.aerocorrect" was made again');
    expect(bytesOf("m.aerovault.aerocorrect").equals(old)).toBe(false);
    const bytes = bytesOf("m.aerovault");
    const whole = Buffer.from(bytes);
    bytes[20] = (bytes[20] as number) ^ 1;
    write("m.aerovault", bytes);
    expect((await run("vault", "ls", "m.aerovault", ...P)).code).toBe(11);
    await ok("vault", "ls", "m.aerovault", ...P2);
    // Whoever puts the old copy back gains nothing by it.
    write("m.aerovault.aerocorrect", old);
    expect([5, 11]).toContain((await run("vault", "ls", "m.aerovault", ...P)).code);
    expect([5, 11]).toContain((await run("vault", "repair", "m.aerovault", ...P)).code);
    write("m.aerovault", whole);
  });

  it.each(["passwd", "embed"])("a change is in place where its sidecar cannot be removed: %s", async (verb) => {
    hurt("bare.aerovault", "kept.aerovault");
    write("stubborn.cjs", STUBBORN);
    const args = verb === "passwd" ? ["passwd", "kept.aerovault"] : ["parity", "kept.aerovault", "embed"];
    const fresh = verb === "passwd" ? ["--new-password-file", "pw2"] : [];
    const more = { ...env, NODE_OPTIONS: `--require=${join(folder, "stubborn.cjs")}` };
    const done = await callTare(["vault", ...args, ...fresh, ...P], { cwd: folder, env: more });
    expect(done).toMatchObject({ code: 8, err: expect.stringMatching(/is in place.*source\/vault\.sidecar-kept/s) });
    await ok("vault", "ls", "kept.aerovault", ...(verb === "passwd" ? P2 : P));
  });

  it("the sidecar of the file as a whole is renewed by passwd too", async () => {
    hurt("own.aerovault", "n.aerovault");
    await ok("correct", "gen", "n.aerovault");
    await ok("vault", "passwd", "n.aerovault", "--new-password-file", "pw2", ...P);
    await ok("correct", "verify", "n.aerovault");
  });

  it("a failed extraction leaves no partial plaintext", async () => {
    hurt("own.aerovault", "o.aerovault", INSIDE);
    expect((await run("vault", "extract", "o.aerovault", "-o", "partial", ...P)).code).toBe(5);
    const left = existsSync(join(folder, "partial")) ? readdirSync(join(folder, "partial")) : [];
    expect(left).toEqual([]);
  });

  it("sidecars of the other kind are recognised and explained", async () => {
    const asFile = await run("correct", "verify", "bare.aerovault");
    expect([asFile.code, asFile.err]).toEqual([6, expect.stringContaining("tare vault repair")]);
    hurt("own.aerovault", "q.aerovault");
    await ok("correct", "gen", "q.aerovault");
    const asVault = await run("vault", "repair", "q.aerovault", "--sidecar", "q.aerovault.aerocorrect", ...P);
    expect([asVault.code, asVault.err]).toEqual([6, expect.stringContaining("tare correct repair")]);
  });
});

describe("tare vault parity", () => {
  it("export, embed and strip, with the sidecar kept current", async () => {
    hurt("bare.aerovault", "r.aerovault");
    expect(await json("vault parity", "r.aerovault", "embed", "--parity", "high", ...P)).toMatchObject({
      action: "embed",
      sidecarFate: "renewed",
      code: 0,
    });
    expect((await ok("vault", "info", "r.aerovault", ...P)).out).toContain("embedded, 30 %");
    await ok("vault", "scrub", "r.aerovault", ...P);
    expect(await json("vault parity", "r.aerovault", "strip", ...P)).toMatchObject({ sidecarFate: "renewed", code: 0 });
    rmSync(join(folder, "r.aerovault.aerocorrect"));
    await ok("vault", "parity", "r.aerovault", "embed", ...P);
    expect((await run("vault", "parity", "r.aerovault", "strip", ...P)).code).toBe(2);
    await ok("vault", "parity", "r.aerovault", "strip", "--force", ...P);
    expect((await run("vault", "parity", "r.aerovault", "mend", ...P)).code).toBe(2);
  });

  it("export replaces a sidecar of a vault, and nothing else unasked", async () => {
    hurt("bare.aerovault", "s.aerovault");
    await ok("vault", "parity", "s.aerovault", "export", ...P);
    await ok("correct", "gen", "s.aerovault", "--force");
    expect((await run("vault", "parity", "s.aerovault", "export", ...P)).code).toBe(2);
    expect(await json("vault parity", "s.aerovault", "export", "--force", ...P)).toMatchObject({ code: 0 });
  });
});

describe("tare vault parity export", () => {
  it("waits for a writer, whose gaps a sidecar would otherwise describe", async () => {
    write("busy.aerovault", bytesOf("bare.aerovault"));
    const lock = await lockVault(join(folder, "busy.aerovault"));
    let exported: Promise<Run> | undefined;
    await new Promise<void>((told, ended) => {
      const onErr = (text: string): void => void (text.includes("waiting for process") && told());
      exported = callTare(["vault", "parity", "busy.aerovault", "export", ...P], { cwd: folder, env, onErr });
      void exported.then(ended);
    });
    expect(existsSync(join(folder, "busy.aerovault.aerocorrect"))).toBe(false);
    await lock.release();
    expect(await exported).toMatchObject({ code: 0 });
    expect(existsSync(join(folder, "busy.aerovault.aerocorrect"))).toBe(true);
  });

  it("is refused while the file is written to under another name", async () => {
    write("inode.aerovault", bytesOf("bare.aerovault"));
    const lock = await lockInode(statSync(join(folder, "inode.aerovault"), { bigint: true }));
    if (typeof lock === "string") return; // another system than Linux
    expect((await run("vault", "parity", "inode.aerovault", "export", ...P)).code).toBe(10);
    await lock.release();
    await ok("vault", "parity", "inode.aerovault", "export", ...P);
  });
});

describe("a sidecar", () => {
  it("is as private as what it protects: its parity tells the contents of a short file, and key slots", async () => {
    write("secret.bin", "a key that only its owner may read\n");
    chmodSync(join(folder, "secret.bin"), 0o600);
    await ok("correct", "gen", "secret.bin");
    expect(statSync(join(folder, "secret.bin.aerocorrect")).mode & 0o777).toBe(0o600);
    expect(statSync(join(folder, "bare.aerovault")).mode & 0o777).toBe(0o600);
    expect(statSync(join(folder, "bare.aerovault.aerocorrect")).mode & 0o777).toBe(0o600);
  });

  it("of a vault behind a link stands where repair looks for it", async () => {
    const whole = hurt("bare.aerovault", "behind.aerovault");
    rmSync(join(folder, "behind.aerovault.aerocorrect"));
    symlinkSync("behind.aerovault", join(folder, "link.aerovault"));
    await ok("vault", "parity", "link.aerovault", "export", ...P);
    expect(existsSync(join(folder, "link.aerovault.aerocorrect"))).toBe(false);
    const damaged = Buffer.from(whole);
    damaged.fill(0, INSIDE, INSIDE + 100);
    write("behind.aerovault", damaged);
    expect(await json("vault repair", "link.aerovault", ...P)).toMatchObject({ repaired: true, origins: ["sidecar"] });
    expect(bytesOf("behind.aerovault").equals(whole)).toBe(true);
  });

  it("is refused by a dry run where the real one would refuse it", async () => {
    hurt("own.aerovault", "dry.aerovault", INSIDE);
    expect((await run("vault", "parity", "dry.aerovault", "export", "--dry-run", ...P)).code).toBe(5);
    expect((await run("vault", "parity", "dry.aerovault", "export", "--dry-run", ...P2)).code).toBe(11);
    const dry = await json("vault parity", "own.aerovault", "export", "--dry-run", ...P);
    expect(dry).toMatchObject({ dryRun: true, code: 0 });
    expect(existsSync(join(folder, "own.aerovault.aerocorrect"))).toBe(false);
    const real = await json("vault parity", "own.aerovault", "export", "-o", "dry.aerocorrect", ...P);
    expect(real["sidecarByteLength"]).toBe(dry["sidecarByteLength"]);
  });
});

describe("tare correct", () => {
  it("protects, finds and heals any file", async () => {
    write("plain.bin", NOISE);
    const made = await json("correct gen", "plain.bin");
    expect(made).toMatchObject({ parityPercent: 15, dataShards: 13, parityShards: 2, code: 0 });
    expect((await run("correct", "gen", "plain.bin")).code).toBe(2);
    expect(await json("correct verify", "plain.bin")).toMatchObject({ ok: true, state: "intact", code: 0 });
    const damaged = Buffer.from(NOISE);
    damaged.fill(0, 100_000, 100_500);
    write("plain.bin", damaged);
    expect(await json("correct verify", "plain.bin")).toMatchObject({ ok: false, state: "damaged", code: 5 });
    expect(await json("correct repair", "plain.bin", "--dry-run")).toMatchObject({ repaired: false, code: 0 });
    expect(bytesOf("plain.bin").equals(damaged)).toBe(true);
    expect(await json("correct repair", "plain.bin")).toMatchObject({ repaired: true, recoveredShards: 1, code: 0 });
    expect(bytesOf("plain.bin").equals(NOISE)).toBe(true);
  });

  it("leaves alone what cannot be healed, and what is not expected", async () => {
    write("lost.bin", NOISE);
    await ok("correct", "gen", "lost.bin");
    const damaged = Buffer.from(NOISE).fill(0, 20_000, 280_000);
    write("lost.bin", damaged);
    const refused = await run("correct", "repair", "lost.bin");
    expect([refused.code, refused.err]).toEqual([5, expect.stringContaining("integrity/aerocorrect.lost")]);
    const anchor = await run("correct", "repair", "lost.bin", "--expect-sha256", "0".repeat(64));
    expect([anchor.code, anchor.err]).toEqual([5, expect.stringContaining("integrity/aerocorrect.anchor")]);
    expect((await run("correct", "repair", "lost.bin", "--expect-sha256", "abcd")).code).toBe(2);
    expect(bytesOf("lost.bin").equals(damaged)).toBe(true);
    rmSync(join(folder, "lost.bin.aerocorrect"));
    expect((await run("correct", "verify", "lost.bin")).code).toBe(9);
  });

  it("keeps permissions, and heals into a copy", async () => {
    write("mode.bin", NOISE);
    await ok("correct", "gen", "mode.bin", "--parity", "high", "-o", "elsewhere.aerocorrect");
    chmodSync(join(folder, "mode.bin"), 0o640);
    write("mode.bin", NOISE.subarray(0, 290_000));
    await ok("correct", "repair", "mode.bin", "--sidecar", "elsewhere.aerocorrect", "-o", "copy.bin");
    expect(bytesOf("copy.bin").equals(NOISE)).toBe(true);
    expect(bytesOf("mode.bin").byteLength).toBe(290_000);
    await ok("correct", "repair", "mode.bin", "--sidecar", "elsewhere.aerocorrect");
    expect(bytesOf("mode.bin").equals(NOISE)).toBe(true);
    expect(statSync(join(folder, "mode.bin")).mode & 0o777).toBe(0o640);
  });
});
