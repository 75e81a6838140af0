import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { S3Options } from "../../src/api/options.ts";
import { TokenBucket } from "../../src/operations/pull/rate.ts";
import { aeroset, pull, push } from "../../src/platform/node/index.ts";
import { nodeVerbs } from "../../src/platform/node/verbs/index.ts";
import { callTare } from "../cli/run-tare.ts";
import { smallSafetensors } from "../cli/small-models.ts";
import { type FileServer, startFileServer } from "../support/file-server.ts";
import { KEY, type S3Server, startS3Server } from "../support/s3-server.ts";
import { copyOf, documentOf, folderWith, noise, plain, snapshot } from "./same-as-command.ts";

type Files = Parameters<typeof startFileServer>[0];

async function serverOf(files: Files): Promise<FileServer> {
  const server = await startFileServer(files);
  onTestFinished(() => server.close());
  return server;
}

/** What measures time or chance. */
const CHANCE = ["requests", "seconds"] as const;

/** How many pieces the journal of an unfinished file has: records of 24 bytes after a line. */
function recordsOf(journal: string): number {
  if (!existsSync(journal)) return 0;
  const bytes = readFileSync(journal);
  return Math.floor((bytes.byteLength - bytes.indexOf(0x0a) - 1) / 24);
}

describe("pull()", () => {
  test("mirrors a file, and returns the document of the command", async () => {
    const server = await serverOf({ "m.safetensors": smallSafetensors() });
    const at = folderWith();
    const from = copyOf(at);
    const env = { XDG_STATE_HOME: at("state") };
    const url = `${server.url}m.safetensors`;
    const run = (...more: readonly string[]) =>
      documentOf((to) => ["pull", url, "-o", to("out"), ...more], { from, to: at }, { env });
    const dry = await run("--dry-run");
    expect(plain(await pull(url, at("out"), { env, dryRun: true }), ...CHANCE)).toEqual(plain(dry, ...CHANCE));
    expect(readdirSync(at())).not.toContain("out");
    const document = await run();
    const notes: string[] = [];
    const result = await pull(new URL(url), at("out"), { env, onNote: (note) => notes.push(note) });
    expect(plain(result, ...CHANCE)).toEqual(plain(document, ...CHANCE));
    expect(result.requests).toBeGreaterThan(0);
    expect(new Uint8Array(readFileSync(at("out", "m.safetensors")))).toEqual(new Uint8Array(smallSafetensors()));
    expect(notes).toEqual([expect.stringContaining("m.safetensors was not compared with anything")]);
    expect(await pull(url, at("out"), { env })).toMatchObject({ files: [{ fetchedBytes: 0 }] });
  });

  test("mirrors only some tensors, as a smaller model", async () => {
    const server = await serverOf({ "m.safetensors": smallSafetensors() });
    const at = folderWith();
    const from = copyOf(at);
    const url = `${server.url}m.safetensors`;
    const args = ["--include", "*norm*", "--include", "*mlp*"];
    const document = await documentOf((to) => ["pull", url, "-o", to("out"), ...args], { from, to: at });
    const options = { include: ["*norm*", "*mlp*"], cache: false } as const;
    expect(plain(await pull(url, at("out"), options), ...CHANCE)).toEqual(plain(document, ...CHANCE));
    expect(readdirSync(at("out"))).toEqual(["m.safetensors"]);
    await expect(pull(url, at("out"), options)).rejects.toMatchObject({ code: "usage/exists" });
    await expect(pull(url, at("o2"), { include: "no*", cache: false })).rejects.toMatchObject({
      code: "usage/tensor-not-found",
    });
  });

  test("a pull that fails before it has anything to keep leaves no folder, and none above it", async () => {
    const server = await serverOf({ "m.bin": noise(1000), "m.safetensors": smallSafetensors() });
    const at = folderWith();
    const env = { XDG_STATE_HOME: at("state") };
    const missing = pull(`${server.url}no.bin`, at("new", "out"), { env });
    await expect(missing).rejects.toMatchObject({ code: "source/not-found" });
    mkdirSync(at("old"));
    await expect(pull(`${server.url}no.bin`, at("old", "out"), { env })).rejects.toThrow();
    const control = new AbortController();
    const onProgress = (): void => control.abort(new Error("enough"));
    const some = { include: "*", cache: false, signal: control.signal, onProgress } as const;
    await expect(pull(`${server.url}m.safetensors`, at("new", "out"), some)).rejects.toThrow("enough");
    expect(readdirSync(at()).sort()).toEqual(["old", "state"]);
    expect(readdirSync(at("old"))).toEqual([]);
  });

  test("headers go to the first server alone, and the option fetch sends every request", async () => {
    const server = await serverOf({ "m.bin": noise(1000) });
    const mirror = await serverOf({ "m.bin": noise(1000) });
    const at = folderWith();
    const env = { XDG_STATE_HOME: at("state") };
    const headers = { "x-key": "secret" };
    await pull(`${server.url}m.bin`, at("out"), { headers, mirror: mirror.url, env });
    expect(server.requests.every((request) => request.headers["x-key"] === "secret")).toBe(true);
    expect(mirror.requests.some((request) => request.headers["x-key"] !== undefined)).toBe(false);
    const asked: string[] = [];
    const send: typeof fetch = async (input, init) => {
      asked.push(String(input));
      return fetch(input, init);
    };
    await pull(`${server.url}m.bin`, at("other"), { fetch: send, env });
    expect(asked.length).toBeGreaterThan(0);
    expect(readFileSync(at("other", "m.bin")).equals(noise(1000))).toBe(true);
  });

  test("an abort in the middle keeps what can resume, and frees the folder", async () => {
    const content = noise(12_000_000);
    const server = await serverOf({ "m.bin": content });
    const at = folderWith();
    const env = { XDG_STATE_HOME: at("state") };
    // The end of the file never arrives, also where one request asks for all of it.
    const never = new Promise<never>(() => undefined);
    const end = 8_000_000;
    server.setFault(({ range }) => {
      const [first, last] = range ?? [0, 0];
      return first >= end ? { after: never } : last >= end ? { dropAfter: end - first } : undefined;
    });
    const reason = new Error("enough");
    const control = new AbortController();
    const url = `${server.url}m.bin`;
    const call = pull(url, at("out"), { env, signal: control.signal }).catch((error: unknown) => error);
    await expect.poll(() => recordsOf(at("out", "m.bin.tare-pull"))).toBeGreaterThan(0);
    control.abort(reason);
    expect(await call).toBe(reason);
    expect(readdirSync(at("out"))).not.toContain("m.bin");
    server.setFault(undefined);
    const again = await pull(url, at("out"), { env });
    expect(again.files[0]?.resumedBytes).toBeGreaterThan(0);
    expect(readFileSync(at("out", "m.bin")).equals(content)).toBe(true);
    expect(readdirSync(at("out")).filter((name) => name.includes("lock") || name.includes("part"))).toEqual([]);
  });

  test.each([[undefined], ["*"]])("an abort ends the wait of a low rate (include: %s)", async (include) => {
    const server = await serverOf({ "m.safetensors": smallSafetensors() });
    const at = folderWith();
    const reason = new Error("enough");
    const control = new AbortController();
    const take = vi.spyOn(TokenBucket.prototype, "take");
    onTestFinished(() => take.mockRestore());
    const call = pull(`${server.url}m.safetensors`, at("out"), {
      include,
      limitRate: 1,
      cache: false,
      env: { XDG_STATE_HOME: at("state") },
      signal: control.signal,
    }).catch((error: unknown) => error);
    await expect.poll(() => take.mock.calls.length).toBeGreaterThan(0);
    control.abort(reason);
    expect(await call).toBe(reason);
  });
});

interface Store {
  readonly server: S3Server;
  readonly s3: S3Options;
  readonly env: Readonly<Record<string, string>>;
  /** The same, as variables. */
  readonly variables: Readonly<Record<string, string>>;
}

async function storeOf(): Promise<Store> {
  const server = await startS3Server();
  onTestFinished(() => server.close());
  const at = folderWith();
  const env = { HOME: at("home"), TARE_CACHE: at("cache") };
  const s3 = { endpoint: server.endpoint, region: "us-east-1", ...KEY };
  const variables = {
    ...env,
    AWS_PROFILE: "",
    AWS_SESSION_TOKEN: "",
    AWS_REGION: "us-east-1",
    AWS_ENDPOINT_URL_S3: server.endpoint,
    AWS_ACCESS_KEY_ID: KEY.accessKeyId,
    AWS_SECRET_ACCESS_KEY: KEY.secretAccessKey,
  };
  return { server, s3, env, variables };
}

describe("push()", () => {
  test("uploads, and returns the document of the command; the store is an option or in the environment", async () => {
    const { server, s3, env, variables } = await storeOf();
    const at = folderWith({ "m.bin": noise(1000) });
    const both = { from: at, to: at };
    const args = ["push", at("m.bin"), "s3://models/a/", "--dry-run"];
    const dry = await documentOf(() => args, both, { env: variables });
    expect(plain(await push(at("m.bin"), "s3://models/a/", { dryRun: true, s3, env }))).toEqual(dry);
    expect(server.objects.size).toBe(0);
    const document = await documentOf(() => ["push", at("m.bin"), "s3://models/a/"], both, { env: variables });
    server.objects.clear();
    expect(plain(await push(at("m.bin"), new URL("s3://models/a/"), { env: variables }))).toEqual(document);
    expect(server.objects.get("a/m.bin")?.bytes.equals(noise(1000))).toBe(true);
    await expect(push(at("m.bin"), "s3://models/a/", { s3, env })).rejects.toMatchObject({ code: "usage/exists" });
    const forced = await push(at("m.bin"), "s3://models/a/", { s3, env, force: true });
    expect(forced.files).toMatchObject([{ url: "s3://models/a/m.bin", state: "written", sentBytes: 1000 }]);
  });

  test("a folder without the links that lead out of it, which are told; with followLinks all of it", async () => {
    const { server, s3, env } = await storeOf();
    const at = folderWith({ "set/a.bin": "a", "b.bin": "b" });
    symlinkSync(at("b.bin"), at("set", "b.bin"));
    const notes: string[] = [];
    await push(at("set"), "s3://models/x", { s3, env, onNote: (note) => notes.push(note) });
    expect([...server.objects.keys()]).toEqual(["x/a.bin"]);
    expect(notes).toEqual([expect.stringMatching(/"b\.bin": not uploaded.*the option followLinks/)]);
    await push(at("set"), "s3://models/y", { s3, env, followLinks: true });
    expect([...server.objects.keys()].sort()).toEqual(["x/a.bin", "y/a.bin", "y/b.bin"]);
    const run = await callTare(["push", at("set"), "s3://models/z", "--dry-run"], {
      env: {
        ...env,
        AWS_ENDPOINT_URL_S3: server.endpoint,
        AWS_ACCESS_KEY_ID: KEY.accessKeyId,
        AWS_SECRET_ACCESS_KEY: KEY.secretAccessKey,
        AWS_REGION: "us-east-1",
      },
    });
    expect(run.err).toBe(
      'tare: warning: "b.bin": not uploaded, as links that lead out of the folder; --follow-links uploads what they lead to\n',
    );
  });

  test("an abort in the middle leaves no object, and the next call goes on there", async () => {
    const { server, s3, env } = await storeOf();
    const content = noise(12 << 20);
    const at = folderWith({ "m.bin": content });
    const reason = new Error("enough");
    const control = new AbortController();
    server.setHook(({ query }) => {
      if (query.get("partNumber") !== "2") return undefined;
      control.abort(reason);
      return "handled"; // no answer, ever
    });
    const options = { s3, env, partSize: "5MiB", concurrency: 1 } as const;
    await expect(push(at("m.bin"), "s3://models/m.bin", { ...options, signal: control.signal })).rejects.toBe(reason);
    expect(server.objects.size).toBe(0);
    server.setHook(undefined);
    const again = await push(at("m.bin"), "s3://models/m.bin", options);
    expect(again).toMatchObject({ byteLength: 12 << 20, sentBytes: 7 << 20 });
    expect(server.objects.get("m.bin")?.bytes.equals(content)).toBe(true);
  });
});

describe("aeroset.update()", () => {
  /** A set of two parts, and a model with the tensors of the second. */
  async function setWithPart() {
    const at = folderWith({ "m.safetensors": smallSafetensors() });
    mkdirSync(at("set"));
    const cut = ["--max-shard-size", "16", "--max-part-shards", "2"];
    const made = await callTare(["convert", at("m.safetensors"), at("set/m.aeroset.json"), ...cut]);
    if (made.code !== 0) throw new Error(made.err);
    const [, part = ""] = readdirSync(at("set")).filter((name) => name.includes("part"));
    const taken = await callTare(["convert", at("set", part), at("part.aero"), "--dtype", "f32"]);
    if (taken.code !== 0) throw new Error(taken.err);
    return { at, part };
  }
  /** Names hold digits of a random id. */
  const RANDOM = ["files.path"] as const;

  test("returns the document of the command, and replaces the part", async () => {
    const { at, part } = await setWithPart();
    const from = copyOf(at);
    const args = (to: typeof at): readonly string[] => ["aeroset", "update", to("set/m.aeroset.json"), to("part.aero")];
    const dry = await documentOf((to) => [...args(to), "--dry-run"], { from, to: at });
    const before = snapshot(at);
    const planned = await aeroset.update(at("set/m.aeroset.json"), at("part.aero"), { dryRun: true });
    expect(plain(planned, ...RANDOM)).toEqual(plain(dry, ...RANDOM));
    expect(snapshot(at)).toEqual(before);
    const document = await documentOf(args, { from, to: at });
    const notes: string[] = [];
    const result = await aeroset.update(at("set/m.aeroset.json"), at("part.aero"), {
      onNote: (note) => notes.push(note),
    });
    expect(plain(result, ...RANDOM)).toEqual(plain(document, ...RANDOM));
    expect(result).toMatchObject({ dryRun: false, part: 1, replaced: part });
    expect(notes).toEqual(result.notes);
    expect(await callTare(["verify", at("set"), "--full"])).toMatchObject({ code: 0 });
  });

  test("takes a model in memory, a part by its number, and keeps the old files where it is told to", async () => {
    const { at, part } = await setWithPart();
    const bytes = new Uint8Array(readFileSync(at("part.aero")));
    const result = await aeroset.update(at("set"), bytes, { part: 1, keep: true });
    expect(result.removed).toEqual([]);
    expect(readdirSync(at("set"))).toContain(part);
    await expect(aeroset.update(at("set"), bytes, { part: 7 })).rejects.toMatchObject({
      code: "usage/aeroset.no-part",
    });
    await expect(aeroset.update(at("m.safetensors"), bytes)).rejects.toMatchObject({ code: "usage/aeroset.container" });
  });

  test("an abort in the middle leaves the set as it was", async () => {
    const { at } = await setWithPart();
    const before = snapshot(at);
    const reason = new Error("enough");
    const control = new AbortController();
    const onProgress = (): void => control.abort(reason);
    const call = aeroset.update(at("set"), at("part.aero"), { signal: control.signal, onProgress });
    await expect(call).rejects.toBe(reason);
    expect(snapshot(at)).toEqual(before);
  });

  test("a model that was opened before stays open", async () => {
    const { at } = await setWithPart();
    writeFileSync(at("note.txt"), "x");
    const { openModel } = await import("../../src/platform/node/index.ts");
    const model = await openModel(at("part.aero"));
    await aeroset.update(at("set"), model);
    expect((await model.tensors[0]?.bytes())?.byteLength).toBeGreaterThan(0);
    await model.close();
    expect((await nodeVerbs.inspect(at("set"))).tensorCount).toBe(4);
  });
});
