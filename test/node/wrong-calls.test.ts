import { describe, expect, test } from "vitest";
import * as node from "../../src/platform/node/index.ts";
import { type At, folderWith, snapshot } from "./same-as-command.ts";

/** Each function with usable arguments. None of the files exists: what is refused first is the options. */
const CALLS: Readonly<Record<string, (options: object) => Promise<unknown>>> = {
  pull: (options) => node.pull("https://host.invalid/m.gguf", "nowhere/out", options),
  push: (options) => node.push("nowhere/m.gguf", "s3://models/m.gguf", options),
  serve: (options) => node.serve("nowhere", options),
  view: (options) => node.view("nowhere/m.gguf", options),
  keygen: (options) => node.keygen("nowhere/key", options),
  "correct.generate": (options) => node.correct.generate("nowhere/m.gguf", options),
  "correct.verify": (options) => node.correct.verify("nowhere/m.gguf", options),
  "correct.repair": (options) => node.correct.repair("nowhere/m.gguf", options),
  "cache.verify": (options) => node.cache.verify(options),
  "cache.prune": (options) => node.cache.prune(options),
  "cache.clear": (options) => node.cache.clear(options),
  "aeroset.update": (options) => node.aeroset.update("nowhere/m.aeroset.json", "nowhere/p.aero", options),
  fileSink: (options) => node.fileSink("nowhere/m.gguf", options),
};

describe.each(Object.entries(CALLS))("%s()", (verb, call) => {
  test("refuses an option that it does not have, and lists those that it has", async () => {
    await expect(call({ frobnicate: true })).rejects.toMatchObject({
      code: "usage/unknown-option",
      message: `Cannot use the option "frobnicate" of ${verb}: there is no such option`,
      hint: expect.stringMatching(/^The options are \w/),
    });
  });

  test("refuses options that are no object", async () => {
    await expect(call("force" as unknown as object)).rejects.toMatchObject({ code: "usage/option-value" });
  });
});

test.each([
  ["pull", { limitRate: 0 }],
  ["pull", { limitRate: "fast" }],
  ["pull", { mirror: [1] }],
  ["pull", { include: true }],
  ["push", { partSize: "1MiB" }],
  ["push", { partSize: "6GiB" }],
  ["push", { followLinks: "yes" }],
  ["serve", { port: 65_536 }],
  ["serve", { host: 1 }],
  ["serve", { host: "" }],
  ["serve", { cors: {} }],
  ["serve", { onRequest: "log" }],
  ["view", { port: -1 }],
  ["keygen", { force: 1 }],
  ["correct.generate", { parity: "4%" }],
  ["correct.generate", { parity: 15 }],
  ["correct.generate", { parity: "constructor" }],
  ["correct.generate", { output: 1 }],
  ["correct.verify", { sidecar: 1 }],
  ["correct.repair", { expectSha256: "abc" }],
  ["cache.verify", { fix: "all" }],
  ["cache.prune", { maxSize: "much" }],
  ["cache.clear", { dryRun: 0 }],
  ["aeroset.update", { part: 1.5 }],
  ["aeroset.update", { part: "" }],
  ["fileSink", { force: "yes" }],
] as const)("%s() refuses %j, and names the option", async (verb, options) => {
  const [name = ""] = Object.keys(options);
  await expect(CALLS[verb]?.(options)).rejects.toMatchObject({
    code: "usage/option-value",
    message: expect.stringContaining(`the option "${name}" of ${verb}: must be `),
  });
});

test.each<readonly [string, () => Promise<unknown>]>([
  ["pull", () => node.pull(7 as unknown as string, "out")],
  ["pull", () => node.pull("https://host.invalid/m", undefined as unknown as string)],
  ["push", () => node.push(null as unknown as string, "s3://models/m")],
  ["push", () => node.push("m", {} as unknown as string)],
  ["serve", () => node.serve(undefined as unknown as string)],
  ["keygen", () => node.keygen("")],
  ["correct.generate", () => node.correct.generate(1 as unknown as string)],
  ["correct.verify", () => node.correct.verify({} as unknown as string)],
  ["correct.repair", () => node.correct.repair(undefined as unknown as string)],
  ["aeroset.update", () => node.aeroset.update(undefined as unknown as string, "m")],
  ["fileSource", () => node.fileSource(3 as unknown as string)],
  ["fileSink", () => node.fileSink(3 as unknown as string)],
])("%s() refuses an argument that is no text", async (_, call) => {
  await expect(call()).rejects.toMatchObject({ code: "usage/option-value" });
});

test.each<readonly [string, () => Promise<unknown>, string]>([
  ["a path", () => node.pull("model.gguf", "out"), "usage/arguments"],
  ["a scheme of no server", () => node.pull("ftp://host/m", "out"), "usage/arguments"],
  ["a broken address", () => node.pull("https://", "out"), "usage/http.url"],
  ["a mirror that is a path", () => node.pull("https://host/m", "out", { mirror: "m" }), "usage/arguments"],
  [
    "ranges from two servers",
    () => node.pull("https://host/m", "out", { mirror: "https://b/", include: "*" }),
    "usage/arguments",
  ],
  ["the network without it", () => node.pull("https://host/m", "out", { offline: true }), "source/offline"],
  ["an address of no store", () => node.push("m", "https://host/m"), "usage/arguments"],
  [
    "a store without the network",
    () => node.push(import.meta.filename, "s3://models/m", { offline: true }),
    "source/offline",
  ],
  ["nothing to view", () => node.view(null as unknown as string), "usage/input"],
  ["a number to view", () => node.view(7 as unknown as string), "usage/input"],
])("refuses %s", async (_, call, code) => {
  await expect(call()).rejects.toMatchObject({ code });
});

test.each<readonly [string, (path: string, at: At) => Promise<unknown>]>([
  ["pull", (path, at) => node.pull("https://host.invalid/m", path, { env: { XDG_STATE_HOME: at("state") } })],
  ["push", (path) => node.push(path, "s3://models/m")],
  ["serve", (path) => node.serve(path)],
  ["view", (path) => node.view(path)],
  ["keygen", (path) => node.keygen(path)],
  ["correct.generate", (path) => node.correct.generate(path)],
  ["correct.generate into", (path, at) => node.correct.generate(at("m.bin"), { output: path })],
  ["correct.verify", (path) => node.correct.verify(path)],
  ["correct.repair with", (path, at) => node.correct.repair(at("m.bin"), { sidecar: path })],
  ["aeroset.update", (path) => node.aeroset.update(path, path)],
  ["fileSource", (path) => node.fileSource(path)],
  ["fileSink", (path) => node.fileSink(path)],
])("%s() reports a NUL in a path as a fault of the path", async (_, call) => {
  const at = folderWith({ "m.bin": "x" });
  const error = await call(at("a\0b"), at).catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code: "source/not-found", message: expect.stringContaining("NUL") });
});

test("an aborted signal is noticed before anything is opened or made", async () => {
  const at = folderWith({ "m.bin": "x" });
  const before = snapshot(at);
  const reason = new Error("enough");
  const signal = AbortSignal.abort(reason);
  const calls = [
    () => node.pull("https://host.invalid/m.gguf", at("out"), { signal }),
    () => node.push(at("m.bin"), "s3://models/m.bin", { signal }),
    () => node.serve(at(), { signal }),
    () => node.view(at("m.bin"), { signal }),
    () => node.correct.generate(at("m.bin"), { signal }),
    () => node.correct.verify(at("m.bin"), { signal }),
    () => node.correct.repair(at("m.bin"), { signal }),
    () => node.aeroset.update(at("m.aeroset.json"), at("m.bin"), { signal }),
  ];
  for (const call of calls) await expect(call()).rejects.toBe(reason);
  expect(snapshot(at)).toEqual(before);
});
