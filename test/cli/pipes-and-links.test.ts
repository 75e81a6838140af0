import { execFileSync, spawn } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { expect, it } from "vitest";
import { callTare, type Run, scratch } from "./run-tare.ts";

/** Opening a target that is refused at first: what is looked at again, and where. */

const PASSWORD = "correct horse\n";

it("a pipe with unknown content is opened once", async () => {
  const file = scratch();
  execFileSync("mkfifo", [file("pipe")]);
  const writer = spawn("sh", ["-c", 'printf "no model at all, and no vault" > "$0"', file("pipe")]);
  const { code, err } = await callTare(["ls", file("pipe")]);
  expect(code, err).toBe(6);
  expect(err).toContain("unsupported/");
  writer.kill();
});

it("a damaged vault behind a link is healed by the sidecar beside the vault", async () => {
  const file = scratch();
  const env = { XDG_STATE_HOME: file("state") };
  const run = (...args: readonly string[]): Promise<Run> =>
    callTare([...args, "--password-file", file("pw", PASSWORD)], { env });
  mkdirSync(file("real"));
  file("a.txt", "content");
  expect((await run("vault", "create", file("real/v"), "--profile", "fast")).code).toBe(0);
  expect((await run("vault", "add", file("real/v"), file("a.txt"))).code).toBe(0);
  expect((await run("vault", "parity", file("real/v"), "export")).code).toBe(0);
  copyFileSync(file("real/v"), file("whole"));
  const bytes = readFileSync(file("real/v"));
  bytes.fill(0, 0, 64);
  writeFileSync(file("real/v"), bytes);
  symlinkSync("real/v", file("link"));
  for (const name of ["real/v", "link"]) {
    const { code, out, err } = await run("vault", "ls", file(name));
    expect({ name, code, err }).toMatchObject({ code: 0 });
    expect(out).toContain("a.txt");
  }
});
