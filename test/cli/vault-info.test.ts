import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeXorshift } from "../builders/vault-content.ts";
import { callTare, type Run } from "./run-tare.ts";

const P = ["--password-file", "pw"];
let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tare-info-"));
  writeFileSync(join(folder, "pw"), "correct horse\n");
  writeFileSync(join(folder, "data.bin"), makeXorshift(31n, 300_000));
  await ok("vault", "create", "v", ...P);
  await ok("vault", "add", "v", "data.bin", ...P);
  copyFileSync(join(folder, "v"), join(folder, "bare"));
  await ok("vault", "parity", "v", "export", ...P);
});

afterAll(() => rmSync(folder, { recursive: true }));

function run(...args: readonly string[]): Promise<Run> {
  return callTare(args, { cwd: folder, env: { XDG_STATE_HOME: join(folder, "state"), TARE_PASSWORD: "" } });
}

async function ok(...args: readonly string[]): Promise<string> {
  const { code, out, err } = await run(...args);
  expect({ args, code, err }).toMatchObject({ code: 0 });
  return out;
}

async function facts(vault: string): Promise<Readonly<Record<string, string>>> {
  return JSON.parse(await ok("vault", "info", vault, "--json", ...P)).facts;
}

/** Puts the vault and its sidecar, or another file under that name, into a folder of their own. */
function place(name: string, beside = "v.aerocorrect"): string {
  mkdirSync(join(folder, name));
  copyFileSync(join(folder, "v"), join(folder, name, "v"));
  copyFileSync(join(folder, beside), join(folder, name, "v.aerocorrect"));
  return `${name}/v`;
}

describe("vault info of a vault with a sidecar", () => {
  it("names it, and says how far it is known to be of this state", async () => {
    const known = await facts("v");
    expect(known["parity"]).toBe("none embedded");
    expect(known["sidecar"]).toMatch(/^".*v\.aerocorrect", made of this header and this manifest; .*tare vault scrub/);
    expect(await ok("vault", "info", "v", ...P)).toMatch(/sidecar +".*v\.aerocorrect"/);
    symlinkSync("v", join(folder, "link"));
    expect((await facts("link"))["sidecar"]).toContain("v.aerocorrect");
  });

  it("says nothing of a sidecar where there is none, or where the vault is in another one", async () => {
    expect(await facts("bare")).not.toHaveProperty("sidecar");
    await ok("vault", "create", "outer", ...P);
    await ok("vault", "add", "outer", "v", ...P);
    await ok("vault", "parity", "outer", "export", ...P);
    expect(await facts("outer::v")).not.toHaveProperty("sidecar");
  });

  it("tells one of another state", async () => {
    const longer = place("longer");
    await ok("vault", "add", longer, "pw", ...P);
    expect((await facts(longer))["sidecar"]).toMatch(/of another state, \d+ bytes long/);
    const vault = place("moved");
    await ok("vault", "mv", vault, "data.bin", "atad.nib", ...P);
    expect((await facts(vault))["sidecar"]).toContain("of another state");
  });

  it("says why a file of that name does not help", async () => {
    expect((await facts(place("garbage", "pw")))["sidecar"]).toMatch(/^of no use: Cannot read the sidecar/);
    const whole = place("whole");
    await ok("correct", "gen", whole, "--force");
    expect((await facts(whole))["sidecar"]).toContain("it is a sidecar of the file as a whole");
  });

  it("reads none of the blocks for that: damage there is for scrub to find", async () => {
    const vault = place("hurt");
    const bytes = readFileSync(join(folder, vault));
    bytes[150_000] = ~(bytes[150_000] ?? 0);
    writeFileSync(join(folder, vault), bytes);
    expect((await facts(vault))["sidecar"]).toContain("made of this header and this manifest");
    expect((await run("vault", "scrub", vault, ...P)).code).toBe(5);
  });
});

it("compact says beforehand what it gives back, which is what info counts as unused", async () => {
  writeFileSync(join(folder, "kept.bin"), makeXorshift(32n, 200_000));
  writeFileSync(join(folder, "gone.bin"), makeXorshift(33n, 900_000));
  const facts = async (...args: readonly string[]): Promise<Record<string, number>> =>
    JSON.parse(await ok("vault", ...args, "--json")) as Record<string, number>;
  await ok("vault", "create", "c", "--no-encryption");
  await ok("vault", "add", "c", "kept.bin", "gone.bin");
  await ok("vault", "rm", "c", "gone.bin");
  const { unusedBytes = 0, gapBytes = 0 } = await facts("info", "c");
  const planned = await facts("compact", "c", "--dry-run");
  const done = await facts("compact", "c");
  expect(unusedBytes + gapBytes).toBeGreaterThan(900_000);
  expect(planned["freedBytes"]).toBe(unusedBytes + gapBytes);
  expect(Math.abs((planned["freedBytes"] ?? 0) - (done["freedBytes"] ?? 0))).toBeLessThan(1000);
});
