import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync } from "node:fs";
import { Ajv2020 } from "ajv/dist/2020.js";
import { expect, it, onTestFinished } from "vitest";
import { requestRaw } from "../support/raw-request.ts";
import { scratch, TARE, tare } from "./run-tare.ts";
import { smallSafetensors } from "./small-models.ts";

/** Starts `tare view` and gives the link that it prints. */
async function view(
  ...args: readonly string[]
): Promise<{ readonly link: URL; readonly stop: () => Promise<number | null> }> {
  const child = spawn(process.execPath, [TARE, "view", ...args], { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  const [line] = (await once(child.stdout, "data")) as [Buffer];
  const stop = async (): Promise<number | null> => {
    child.kill("SIGINT");
    const [code] = (await once(child, "exit")) as [number | null];
    return code;
  };
  return { link: new URL(line.toString().trim()), stop };
}

it("prints a link to the viewer, hands out the target by ranges below it, and nothing else", async () => {
  const file = scratch();
  const bytes = smallSafetensors();
  mkdirSync(file("models"));
  file("models/m.safetensors", bytes);
  file("models/vocab.txt", "[PAD]\n");
  file("models/secret.txt", "not for anybody");
  const { link, stop } = await view(file("models/m.safetensors"));
  expect(link.href).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/[0-9a-f]{32}\/#url=files\/m\.safetensors$/);
  const get = (path: string, headers: Readonly<Record<string, string>> = {}) =>
    requestRaw(link.origin, { path, headers });
  const page = await get(link.pathname);
  expect(page.status).toBe(200);
  expect(page.headers["content-security-policy"]).toContain("frame-ancestors 'none'");
  expect((await get(`${link.pathname}main.js`)).status).toBe(200);
  const target = `${link.pathname}files/m.safetensors`;
  const whole = await get(target);
  expect(whole.body).toEqual(Buffer.from(bytes));
  expect(whole.headers["access-control-allow-origin"]).toBeUndefined();
  const range = await get(target, { range: "bytes=8-11" });
  expect([range.status, range.headers["content-range"]]).toEqual([206, `bytes 8-11/${bytes.byteLength}`]);
  expect(range.body).toEqual(Buffer.from(bytes.subarray(8, 12)));
  expect((await get(target, { range: "bytes=999999-" })).status).toBe(416);
  expect((await get(`${link.pathname}files/vocab.txt`)).status).toBe(200);
  const refused = [
    "/",
    "/main.js",
    `${link.pathname}files/secret.txt`,
    `${link.pathname}files/..%2Fmodels%2Fsecret.txt`,
    `${link.pathname}files/%`,
    `${link.pathname}..%2F..%2Fpackage.json`,
    `/${"0".repeat(32)}/files/m.safetensors`,
  ];
  for (const path of refused) expect((await get(path)).status, path).toBe(404);
  expect((await requestRaw(link.origin, { path: target, method: "PUT" })).status).toBe(404);
  expect(await stop()).toBe(130);
});

it("hands out standard input, and names what lies inside a vault", async () => {
  const file = scratch();
  const bytes = smallSafetensors();
  const child = spawn(process.execPath, [TARE, "view", "-"], { stdio: ["pipe", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  child.stdin.end(bytes);
  const [line] = (await once(child.stdout, "data")) as [Buffer];
  const link = new URL(line.toString().trim());
  const path = link.pathname + link.hash.replace("#url=", "");
  expect((await requestRaw(link.origin, { path })).body).toEqual(Buffer.from(bytes));
  const vault = file("v.aerovault");
  file("m.safetensors", bytes);
  expect((await tare(["vault", "create", vault, "--no-encryption"])).code).toBe(0);
  expect((await tare(["vault", "add", vault, file("m.safetensors")])).code).toBe(0);
  const inside = await view(`${vault}::m.safetensors`);
  expect(inside.link.hash).toBe("#url=files/v.aerovault&inside=m.safetensors");
});

it("with --json one document, as its schema says; a target that is not there is 9", async () => {
  const file = scratch();
  const path = file("m.safetensors", smallSafetensors());
  const run = await tare(["view", path, "--dry-run", "--json"]);
  expect(run).toMatchObject({ code: 0, err: "" });
  const schema = readFileSync(new URL("../../schemas/view.schema.json", import.meta.url), "utf8");
  const document: unknown = JSON.parse(run.out);
  expect(new Ajv2020().validate(JSON.parse(schema) as object, document)).toBe(true);
  expect(document).toMatchObject({ target: path, dryRun: true });
  expect((await tare(["view", file("nothing")])).code).toBe(9);
});
