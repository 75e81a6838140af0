import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { buildAero, smallAero } from "../builders/aero.ts";
import { callTare, type Run } from "./run-tare.ts";
import { smallGguf } from "./small-models.ts";

const P = ["--password-file", "pw"];
let folder: string;
let tensor: string;

/** What is in a vault, encrypted and not, and in an encrypted one inside a plain one and the other way round. */
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tare-authenticated-"));
  writeFileSync(join(folder, "pw"), "correct horse\n");
  writeFileSync(join(folder, "m.gguf"), smallGguf());
  // An AERO file without any digest is what conversions call unverified.
  writeFileSync(join(folder, "m.aero"), buildAero({ chunks: smallAero() }));
  tensor = JSON.parse(await ok("ls", "m.gguf", "--json")).tensors[0].name;
  await ok("vault", "create", "sealed", ...P);
  await ok("vault", "create", "open", "--no-encryption");
  for (const file of ["m.gguf", "m.aero"]) {
    await ok("vault", "add", "sealed", file, ...P);
    await ok("vault", "add", "open", file);
  }
  await ok("vault", "create", "outer", ...P);
  await ok("vault", "add", "outer", "open", ...P);
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

/** What `cat -o --json` says of the bytes, as its schema has it. */
async function verification(schema: string, ...args: readonly string[]): Promise<unknown> {
  const document = JSON.parse(await ok(...args, "-o", "out", "--force", "--json"));
  const text = readFileSync(new URL(`../../schemas/${schema}.schema.json`, import.meta.url), "utf8");
  expect(new Ajv2020({ strict: false }).validate(JSON.parse(text) as object, document)).toBe(true);
  return document.verification;
}

describe("bytes of an encrypted vault", () => {
  it("are authenticated for cat and vault cat; those of a plain one are as before", async () => {
    expect(await verification("cat", "cat", "sealed::m.gguf", tensor, ...P)).toBe("authenticated");
    expect(await verification("cat", "cat", "outer::open::m.gguf", tensor, ...P)).toBe("authenticated");
    expect(await verification("cat", "cat", "open::m.gguf", tensor)).toBe("unverified");
    expect(await verification("cat", "cat", "m.gguf", tensor)).toBe("unverified");
    expect(await verification("vault-cat", "vault", "cat", "sealed", "m.gguf", ...P)).toBe("authenticated");
    expect(await verification("vault-cat", "vault", "cat", "open", "m.gguf")).toBeUndefined();
    const { err } = await run("cat", "sealed::m.gguf", tensor, "-o", "out", "--force", ...P);
    expect(err).toContain("authenticated by the vault");
  });

  it("need no note that the file has no digests of its own", async () => {
    const [sealed, open] = [await run("cat", "sealed::m.aero", "w", ...P), await run("cat", "open::m.aero", "w")];
    expect([sealed.code, open.code]).toEqual([0, 0]);
    expect(open.err).toContain("unverified");
    expect(sealed.err).not.toContain("unverified");
  });
});
