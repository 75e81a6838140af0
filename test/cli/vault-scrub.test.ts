import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { afterAll, beforeAll, expect, it } from "vitest";
import { makeXorshift } from "../builders/vault-content.ts";
import { loadFixture } from "../support/fixtures.ts";
import { callTare, type Run } from "./run-tare.ts";

let folder: string;
let env: Record<string, string>;
const P = ["--password-file", "pw"];
/** The middle of the data section of a vault of one file. */
const INSIDE = 150_000;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tare-scrub-"));
  env = { XDG_STATE_HOME: join(folder, "state"), TARE_PASSWORD: "" };
  write("pw", "correct horse\n");
  write("data.bin", makeXorshift(77n, 300_000));
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

const SCHEMA = readFileSync(new URL("../../schemas/vault-scrub.schema.json", import.meta.url), "utf8");

/** The report of a vault, as its schema has it. */
async function scrub(vault: string): Promise<Record<string, unknown>> {
  const done = await run("vault", "scrub", vault, "--json");
  const document: unknown = JSON.parse(done.out);
  const validate = new Ajv2020({ strict: false }).compile(JSON.parse(SCHEMA) as object);
  expect(validate(document), JSON.stringify(validate.errors)).toBe(true);
  return { ...(document as Record<string, unknown>), code: done.code };
}

const bytesOf = (name: string): Buffer => readFileSync(join(folder, name));
const write = (name: string, bytes: Uint8Array | string): void => writeFileSync(join(folder, name), bytes);

function flip(from: string, to: string, offset: number): void {
  const bytes = bytesOf(from);
  bytes[offset] = (bytes[offset] as number) ^ 0x55;
  write(to, bytes);
}

it("compares what parity and the sidecar know without the password, and says what it did not check", async () => {
  expect(await scrub("own.aerovault")).toMatchObject({
    ok: true,
    code: 0,
    checked: { manifests: 1 },
    // There is room between them, and only the manifest knows where they lie.
    notChecked: ["blocks", "contents"],
    findings: [{ code: "integrity/aerovault.sealed", severity: "note" }],
  });
  expect(await scrub("bare.aerovault")).toMatchObject({
    ok: true,
    checked: { sidecars: 1 },
    notChecked: ["contents"],
    code: 0,
  });
  const { out } = await ok("vault", "scrub", "bare.aerovault");
  expect(out).toMatch(/no damage in what was checked: .*; not checked: names, sizes and contents$/m);
  expect(out).not.toMatch(/^ok/m);
  const manifestOffset = Number(bytesOf("own.aerovault").readBigUInt64LE(144));
  flip("own.aerovault", "e.aerovault", manifestOffset + 50);
  expect(await scrub("e.aerovault")).toMatchObject({ ok: false, notChecked: ["blocks", "contents"], code: 5 });
});

it("has checked nothing by a sidecar of another state", async () => {
  flip("bare.aerovault", "stale.aerovault", INSIDE);
  copyFileSync(join(folder, "bare.aerovault.aerocorrect"), join(folder, "stale.aerovault.aerocorrect"));
  expect(await scrub("stale.aerovault")).toMatchObject({
    notChecked: ["manifest", "blocks", "contents"],
    findings: [{ code: "integrity/aerovault.sidecar", severity: "warning" }, { code: "integrity/aerovault.sealed" }],
  });
});

it("needs the password where there is neither parity nor a sidecar, and where the vault is no file here", async () => {
  write("alone.aerovault", bytesOf("bare.aerovault"));
  const alone = await run("vault", "scrub", "alone.aerovault");
  expect(alone).toMatchObject({ code: 11, out: "" });
  expect(alone.err).toContain("no parity and no sidecar");
  expect(JSON.parse((await run("vault", "scrub", "alone.aerovault", "--json")).out)).toMatchObject({
    type: "error",
    code: "usage/password.missing",
    at: { source: "alone.aerovault" },
    hint: expect.stringContaining("--password-file"),
  });
  await ok("vault", "create", "outer.aerovault", "--no-encryption");
  await ok("vault", "add", "outer.aerovault", "own.aerovault");
  write("two.aerovault", loadFixture("aerovault2-sealed", "reference"));
  for (const target of ["outer.aerovault::own.aerovault", "two.aerovault"]) {
    const asked = await run("vault", "scrub", target);
    expect({ target, ...asked }).toMatchObject({
      code: 11,
      err: expect.stringContaining("[usage/password.missing]"),
    });
  }
});
