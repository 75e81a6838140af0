import { expect, onTestFinished, test, vi } from "vitest";
import { type AccessEntry, openModel, serve, view } from "../../src/platform/node/index.ts";
import { callTare } from "../cli/run-tare.ts";
import { smallGguf, smallSafetensors } from "../cli/small-models.ts";
import { folderWith, plain } from "./same-as-command.ts";

const isGone = (url: string): Promise<boolean> =>
  fetch(url).then(
    () => false,
    () => true,
  );

test("serve() gives the document of the command, and is gone after close(), which may be called twice", async () => {
  const at = folderWith({ "m.bin": "hello" });
  const { out } = await callTare(["serve", at(), "--port", "0", "--dry-run", "--json"]);
  const requests: AccessEntry[] = [];
  const server = await serve(at(), { port: 0, onRequest: (entry) => requests.push(entry) });
  onTestFinished(() => server.close());
  const chance = ["url", "port", "dryRun"] as const;
  expect(plain(server, ...chance)).toEqual(plain(JSON.parse(out), ...chance));
  expect(JSON.parse(JSON.stringify(server))).toEqual({
    url: server.url,
    port: Number(new URL(server.url).port),
    networkUrls: [],
    directory: at(),
    dryRun: false,
  });
  expect(await (await fetch(`${server.url}/m.bin`)).text()).toBe("hello");
  await vi.waitFor(() => expect(requests).toMatchObject([{ method: "GET", target: "/m.bin", status: 200 }]));
  await server.close();
  await server.close();
  await server[Symbol.asyncDispose]();
  expect(await isGone(server.url)).toBe(true);
});

test("serve() lets pages in that cors names, and closes when the signal is aborted", async () => {
  const at = folderWith({ "m.bin": "hello" });
  const control = new AbortController();
  const server = await serve(at(), { port: 0, cors: "https://page.example", signal: control.signal });
  const asked = await fetch(`${server.url}/m.bin`, { headers: { origin: "https://page.example" } });
  expect(asked.headers.get("access-control-allow-origin")).toBe("https://page.example");
  await asked.text();
  control.abort(new Error("enough"));
  await server.close();
  expect(await isGone(server.url)).toBe(true);
});

test("serve() in a dry run says whether it could, and listens no more", async () => {
  const at = folderWith({ "m.bin": "hello" });
  const server = await serve(at(), { port: 0, dryRun: true });
  expect(server.dryRun).toBe(true);
  expect(await isGone(server.url)).toBe(true);
  await server.close();
  await expect(serve(at("m.bin"), { port: 0 })).rejects.toMatchObject({ code: "usage/serve.directory" });
  await expect(serve(at(), { port: 0, cors: "a page" })).rejects.toMatchObject({ code: "usage/serve.cors" });
});

test("a port that is taken is refused, with the option of the library and the flag of the command line", async () => {
  const at = folderWith({ "m.bin": "hello" });
  const server = await serve(at(), { port: 0 });
  onTestFinished(() => server.close());
  await expect(serve(at(), { port: server.port })).rejects.toMatchObject({
    code: "source/serve.port",
    hint: "Pass the option port 0 to take a free one",
  });
  const run = await callTare(["serve", at(), "--port", String(server.port)]);
  expect(run.err).toContain("Pass --port 0 to take a free one");
});

/** The bytes of the file that the page of a link would ask for. */
async function bytesBehind(link: string): Promise<Uint8Array> {
  const { origin, pathname, hash } = new URL(link);
  const file = new URLSearchParams(hash.slice(1)).get("url") ?? "";
  return new Uint8Array(await (await fetch(`${origin}${pathname}${file}`)).arrayBuffer());
}

test("view() gives the document of the command, and is gone after close(), which may be called twice", async () => {
  const at = folderWith({ "m.gguf": smallGguf() });
  const { out } = await callTare(["view", at("m.gguf"), "--dry-run", "--json"]);
  const viewer = await view(at("m.gguf"));
  const chance = ["url", "port", "dryRun"] as const;
  expect(plain(viewer, ...chance)).toEqual(plain(JSON.parse(out), ...chance));
  expect(Object.keys(JSON.parse(JSON.stringify(viewer)) as object)).toEqual(["url", "port", "target", "dryRun"]);
  expect((await fetch(viewer.url)).status).toBe(200);
  expect(await bytesBehind(viewer.url)).toEqual(new Uint8Array(smallGguf()));
  await viewer.close();
  await viewer.close();
  await viewer[Symbol.asyncDispose]();
  expect(await isGone(viewer.url)).toBe(true);
});

test("view() shows bytes, Blobs, streams and opened models, which stay open", async () => {
  const bytes = smallSafetensors();
  const at = folderWith({ "m.safetensors": bytes });
  const model = await openModel(at("m.safetensors"));
  for (const input of [bytes, new Blob([bytes]), new Blob([bytes]).stream(), model]) {
    const viewer = await view(input);
    expect(await bytesBehind(viewer.url)).toEqual(new Uint8Array(bytes));
    await viewer.close();
  }
  expect((await model.tensors[0]?.bytes())?.byteLength).toBeGreaterThan(0);
  await model.close();
});

test("view() closes when the signal is aborted, and reports what cannot be opened", async () => {
  const at = folderWith({ "m.gguf": smallGguf() });
  const control = new AbortController();
  const viewer = await view(at("m.gguf"), { signal: control.signal });
  control.abort(new Error("enough"));
  await viewer.close();
  expect(await isGone(viewer.url)).toBe(true);
  await expect(view(at("nothing.gguf"))).rejects.toMatchObject({ code: "source/not-found" });
});
