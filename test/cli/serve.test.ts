import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync } from "node:fs";
import { Ajv2020 } from "ajv/dist/2020.js";
import { expect, it, onTestFinished } from "vitest";
import { requestRaw } from "../support/raw-request.ts";
import { callTare, scratch, TARE, tare } from "./run-tare.ts";
import { smallSafetensors } from "./small-models.ts";

interface Serving {
  readonly child: ChildProcess;
  /** Everything on standard output and standard error up to now. */
  readonly out: () => string;
  readonly err: () => string;
}

/** Starts the server and waits for the one line that says where it is. */
async function serve(args: readonly string[]): Promise<Serving> {
  const child = spawn(process.execPath, [TARE, "serve", ...args], { stdio: ["ignore", "pipe", "pipe"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  let [out, err] = ["", ""];
  child.stdout.on("data", (piece: Buffer) => {
    out += piece.toString();
  });
  child.stderr.on("data", (piece: Buffer) => {
    err += piece.toString();
  });
  await Promise.race([once(child.stdout, "data"), once(child, "exit")]);
  return { child, out: () => out, err: () => err };
}

async function interrupt({ child }: Serving): Promise<number | null> {
  child.kill("SIGINT");
  const [code] = (await once(child, "exit")) as [number | null];
  return code;
}

it("prints its address on one line, serves a model to tare itself, logs with -v, and ends with 130", async () => {
  const file = scratch();
  mkdirSync(file("models"));
  file("models/m.safetensors", smallSafetensors());
  const serving = await serve([file("models"), "--port", "0", "-v"]);
  expect(serving.out()).toMatch(/^http:\/\/127\.0\.0\.1:\d+\n$/);
  const url = serving.out().trim();
  const listed = await tare(["ls", `${url}/m.safetensors`, "--json"]);
  expect(listed).toMatchObject({ code: 0, err: "" });
  expect((JSON.parse(listed.out) as { tensors: unknown[] }).tensors).toHaveLength(4);
  expect(await interrupt(serving)).toBe(130);
  expect(serving.err()).toMatch(/^127\.0\.0\.1 GET \/m\.safetensors 206 /);
  expect(serving.out()).toBe(`${url}\n`);
});

it("with --json standard output is exactly one document", async () => {
  const file = scratch();
  file("m.bin", "bytes");
  const serving = await serve([file("."), "--port", "0", "--json"]);
  const { url } = JSON.parse(serving.out()) as { readonly url: string };
  expect((await requestRaw(url, { path: "/m.bin" })).body.toString()).toBe("bytes");
  expect(await interrupt(serving)).toBe(130);
  const document: unknown = JSON.parse(serving.out());
  expect(document).toMatchObject({ url, port: Number(new URL(url).port), networkUrls: [], dryRun: false });
  const schema = readFileSync(new URL("../../schemas/serve.schema.json", import.meta.url), "utf8");
  expect(new Ajv2020().validate(JSON.parse(schema) as object, document)).toBe(true);
  expect(serving.err()).toBe("");
});

it("serves a vault under an address that cannot be guessed, and keeps that out of its log", async () => {
  const file = scratch();
  const vault = file("v.aerovault");
  file("notes.txt", "some notes");
  const password = ["--password-file", file("pw", "correct horse")];
  for (const args of [
    ["create", vault],
    ["add", vault, file("notes.txt")],
  ])
    expect(await callTare(["vault", ...args, ...password])).toMatchObject({ code: 0 });
  const serving = await serve([vault, "--port", "0", "-v", ...password]);
  expect(serving.out()).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/[0-9a-f]{32}\n$/);
  const { origin, pathname } = new URL(serving.out().trim());
  expect((await requestRaw(origin, { path: `${pathname}/notes.txt` })).body.toString()).toBe("some notes");
  expect((await requestRaw(origin, { path: "/notes.txt" })).status).toBe(404);
  expect(await callTare(["vault", "mkdir", vault, "new", ...password])).toMatchObject({ code: 0 });
  const found = await requestRaw(origin, { method: "PROPFIND", path: `${pathname}/new`, headers: { depth: "0" } });
  expect(found.status).toBe(207);
  expect(await interrupt(serving)).toBe(130);
  expect(serving.err()).toMatch(
    /^127\.0\.0\.1 GET \/…\/notes\.txt 200 .*\n127\.0\.0\.1 GET \/notes\.txt 404 .*\n.*PROPFIND/,
  );
  expect(serving.err()).not.toContain(pathname);
});

it("refuses a vault beyond this machine without a word on who may read, a bad login and a wrong password", async () => {
  const file = scratch();
  const vault = file("v.aerovault");
  const password = ["--password-file", file("pw", "correct horse")];
  expect(await callTare(["vault", "create", vault, ...password])).toMatchObject({ code: 0 });
  const run = (...args: string[]) => callTare(["serve", vault, "--port", "0", "--dry-run", ...args]);
  const far = await run(...password, "--host", "0.0.0.0");
  expect(far.code).toBe(2);
  expect(far.err).toContain("Pass --auth-file with a user and a password, or --no-token to let everybody in");
  expect((await run(...password, "--host", "0.0.0.0", "--no-token")).code).toBe(0);
  const login = await run(...password, "--host", "0.0.0.0", "--auth-file", file("login", "user"));
  expect(login.code).toBe(2);
  expect(login.err).toContain("[usage/serve.auth-file]");
  expect(login.err).toContain("--auth-file");
  expect((await run("--password-file", file("wrong", "not this one"))).code).toBe(11);
});

it("--dry-run listens for a moment only, and ends", async () => {
  const file = scratch();
  const run = await tare(["serve", file("."), "--port", "0", "--dry-run", "--json"]);
  expect(run).toMatchObject({ code: 0, err: "" });
  expect(JSON.parse(run.out)).toMatchObject({ dryRun: true });
});

it("refuses what is no folder, no port and no address of this machine", async () => {
  const file = scratch();
  const path = file("m.bin", "bytes");
  const runs = await Promise.all([
    tare(["serve", path]),
    tare(["serve", file("nothing")]),
    tare(["serve", file("."), "--port", "65536"]),
    tare(["serve", file("."), "--port", "0", "--host", "192.0.2.1"]),
  ]);
  expect(runs.map(({ code }) => code)).toEqual([2, 9, 2, 2]);
  expect(runs[0]?.err).toContain("[usage/serve.directory]");
  expect(runs[3]?.err).toContain("[usage/serve.host]");
});
