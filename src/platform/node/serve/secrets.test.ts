import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { type CraftedFile, craftVault, VAULT_PASSWORD } from "../../../../test/builders/crafted-vault.ts";
import { quickEngine } from "../../../../test/builders/sealed-apr.ts";
import { type RawReply, type RawRequest, requestRaw } from "../../../../test/support/raw-request.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import { type ServeOptions, type Server, serve } from "./index.ts";

/** The name in the address of a vault, and users with a password. */

const engine = quickEngine();
const password = VAULT_PASSWORD;
let folder: string;
let path: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tare-secrets-"));
  path = join(folder, "v.aerovault");
  const file = (name: string): CraftedFile => ({ path: name, chunks: [encodeUtf8(name)] });
  writeFileSync(path, await craftVault([file("data.bin"), file("folder/page.html")], { engine }));
});
afterAll(() => rmSync(folder, { recursive: true }));

async function start(options: ServeOptions = {}): Promise<Server> {
  const server = await serve(path, { port: 0, engine, password, token: false, env: {}, ...options });
  onTestFinished(() => server.close());
  return server;
}

const ask = (server: Server, target: string, more: Omit<RawRequest, "path"> = {}): Promise<RawReply> =>
  requestRaw(server.url, { path: target, ...more });

describe("who may read", () => {
  test("nothing is answered without the name in the address, which the log leaves out", async () => {
    const targets: string[] = [];
    const server = await start({
      token: undefined,
      onRequest: ({ target }) => targets.push(target),
    });
    const { origin, pathname } = new URL(server.url);
    expect(pathname).toMatch(/^\/[0-9a-f]{32}$/);
    const status = async (target: string, method = "GET"): Promise<number> =>
      (await requestRaw(origin, { path: target, method, headers: { depth: "0" } })).status;
    for (const target of ["/", "/data.bin", `${pathname}0/data.bin`, `${pathname.slice(0, -1)}/data.bin`, "/folder/"]) {
      for (const method of ["GET", "HEAD", "PROPFIND", "OPTIONS", "PUT"])
        expect(await status(target, method)).toBe(404);
    }
    expect(await status(`${pathname}/data.bin`)).toBe(200);
    expect(await status(`${pathname}/`, "PROPFIND")).toBe(207);
    const redirect = await requestRaw(origin, { path: pathname });
    expect([redirect.status, redirect.headers.location]).toEqual([301, `${pathname}/`]);
    const page = (await requestRaw(origin, { path: `${pathname}/folder/` })).body.toString();
    expect(page).toContain(`<a href="${pathname}/">Up one folder</a>`);
    expect(page).toContain(`<a href="${pathname}/folder/page.html">`);
    await vi.waitFor(() => expect(targets).toContain("/…/data.bin"));
    expect(targets.join()).not.toContain(pathname);
    expect(await status(`${pathname}/%2e%2e/x`)).toBe(400);
  });

  test("other host names than those of this machine are refused", async () => {
    const server = await start();
    expect((await ask(server, "/data.bin", { headers: { host: "evil.example" } })).status).toBe(421);
  });

  test("with authFile, only who sends its user and password", async () => {
    const authFile = join(folder, "login");
    writeFileSync(authFile, "reader:correct: horse\n");
    const server = await start({ authFile, cors: "https://page.example" });
    const basic = (text: string): Record<string, string> => ({
      authorization: `Basic ${Buffer.from(text).toString("base64")}`,
    });
    const refused = await ask(server, "/data.bin");
    expect([refused.status, refused.headers["www-authenticate"]]).toEqual([401, 'Basic realm="tare", charset="UTF-8"']);
    for (const text of ["", "reader", "reader:", "reader:correct", "reader:correct: horse\n", "Reader:correct: horse"])
      expect((await ask(server, "/data.bin", { headers: basic(text) })).status).toBe(401);
    expect((await ask(server, "/data.bin", { headers: { authorization: "Bearer x" } })).status).toBe(401);
    expect((await ask(server, "/", { method: "PROPFIND", headers: { depth: "0" } })).status).toBe(401);
    expect((await ask(server, "/data.bin", { headers: basic("reader:correct: horse") })).status).toBe(200);
    // Clients send the same request again, so the connection must not end under its body.
    const body = '<?xml version="1.0"?><D:propfind xmlns:D="DAV:"><D:allprop/></D:propfind>';
    const headers = { depth: "0", connection: "keep-alive", "content-length": String(body.length) };
    const question = await ask(server, "/", { method: "PROPFIND", headers, body });
    expect([question.status, question.headers["connection"]]).toEqual([401, "keep-alive"]);
    // A browser sends no password with the question whether it may.
    const preflight = { origin: "https://page.example", "access-control-request-method": "GET" };
    const asked = await ask(server, "/data.bin", { method: "OPTIONS", headers: preflight });
    expect(asked.status).toBe(204);
    expect(asked.headers["access-control-allow-headers"]).toMatch(/, Authorization$/);
  });

  test("a folder is served to one user too", async () => {
    const authFile = join(folder, "login2");
    writeFileSync(authFile, "a:b");
    const server = await serve(folder, { port: 0, authFile });
    onTestFinished(() => server.close());
    expect((await ask(server, "/login2")).status).toBe(401);
    const headers = { authorization: `Basic ${Buffer.from("a:b").toString("base64")}` };
    expect((await ask(server, "/login2", { headers })).status).toBe(200);
  });

  test.each(["", "\n", "user", "user:", ":password", "a:b\nc:d", "a:b\u0000", "a:\u0007"])(
    "a file that is no user and password: %j",
    async (content) => {
      const authFile = join(folder, "bad-login");
      writeFileSync(authFile, content);
      const refused = serve(path, { port: 0, engine, password, authFile });
      await expect(refused).rejects.toMatchObject({ code: "usage/serve.auth-file" });
    },
  );

  test("beyond this machine, one of authFile and token: false must be given", async () => {
    const options = { port: 0, engine, password, env: {} } as const;
    for (const host of ["0.0.0.0", "::", "a-name.example"]) {
      await expect(serve(path, { ...options, host })).rejects.toMatchObject({ code: "usage/serve.reach" });
    }
    for (const host of ["127.0.0.1", "localhost"]) await (await serve(path, { ...options, host })).close();
    const server = await start({ host: "0.0.0.0" });
    expect((await ask(server, "/data.bin")).status).toBe(200);
  });

  test("the password is asked for, and a wrong one refused", async () => {
    const options = { port: 0, engine, env: {} } as const;
    await expect(serve(path, { ...options, password: "not this one" })).rejects.toMatchObject({
      code: "usage/password.wrong",
    });
    await expect(serve(path, options)).rejects.toMatchObject({ code: "usage/password.missing" });
    await expect(serve(path, { ...options, password, token: true as false })).rejects.toMatchObject({
      code: "usage/option-value",
    });
  });
});
