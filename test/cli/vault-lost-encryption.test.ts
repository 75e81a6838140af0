import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { callTare, type Run } from "./run-tare.ts";

/** Where the header has its flags; the lowest bit says that the vault is encrypted. */
const FLAGS_OFFSET = 11;

let folder: string;

function run(...args: readonly string[]): Promise<Run> {
  const env = { XDG_STATE_HOME: join(folder, "state"), TARE_PASSWORD: "" };
  return callTare([...args, "--password-file", "pw"], { cwd: folder, env });
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tare-lost-encryption-"));
  writeFileSync(join(folder, "pw"), "correct horse\n");
  expect((await run("vault", "create", "whole.aerovault")).code).toBe(0);
  expect((await run("vault", "add", "whole.aerovault", "pw")).code).toBe(0);
  expect((await run("vault", "parity", "whole.aerovault", "export")).code).toBe(0);
  const bytes = readFileSync(join(folder, "whole.aerovault"));
  bytes.writeUInt8(bytes.readUInt8(FLAGS_OFFSET) ^ 1, FLAGS_OFFSET);
  for (const name of ["alone.aerovault", "protected.aerovault"]) writeFileSync(join(folder, name), bytes);
  const sidecars = ["whole", "protected"].map((name) => join(folder, `${name}.aerovault.aerocorrect`));
  copyFileSync(sidecars[0] as string, sidecars[1] as string);
});

afterAll(() => rmSync(folder, { recursive: true }));

it.each(["repair", "ls", "scrub"])("vault %s refuses a header that lost its bit for encryption", async (command) => {
  expect((await run("vault", command, "alone.aerovault")).code).toBe(11);
});

it("a sidecar heals such a header: for reading at once, on disk by a repair", async () => {
  const listed = await run("vault", "ls", "protected.aerovault");
  expect(listed).toMatchObject({ code: 0, out: expect.stringContaining("pw") as string });
  expect(listed.err).toContain("The header of the vault is damaged");
  expect((await run("vault", "scrub", "protected.aerovault")).code).toBe(5);
  expect((await run("vault", "repair", "protected.aerovault")).code).toBe(0);
  const [whole, healed] = ["whole", "protected"].map((name) => readFileSync(join(folder, `${name}.aerovault`)));
  expect(healed?.equals(whole as Buffer)).toBe(true);
});
