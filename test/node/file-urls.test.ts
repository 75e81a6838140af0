import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { describe, expect, test } from "vitest";
import { encodeUtf8 } from "../../src/base/text.ts";
import { recordPatches } from "../../src/platform/node/files/patch.ts";
import {
  aeroset,
  cat,
  convert,
  correct,
  createVault,
  extract,
  fileSink,
  fileSource,
  inspect,
  keygen,
  openVault,
  pull,
  push,
  repairVault,
  serve,
  sign,
  stamp,
  verify,
  view,
} from "../../src/platform/node/index.ts";
import { namesIn, twoFolders } from "../support/library-folders.ts";

const folders = twoFolders();
const { at } = folders;
const url = (name: string): string => pathToFileURL(at(name)).href;

const WRONG = ["file:///a%2Fb", "file:///%", "file://[", ...(process.platform === "win32" ? [] : ["file://host/x"])];

describe("a file URL that names no path is a usage error", () => {
  const calls: Record<string, (text: string) => Promise<unknown>> = {
    inspect: (text) => inspect(text),
    "convert from": (text) => convert(text, at("x.gguf")),
    "convert to": (text) => convert(at("m.gguf"), text, { to: "apr" }),
    "convert with metadata": (text) => convert(at("m.gguf"), at("x.gguf"), { metadata: text }),
    extract: (text) => extract(at("v.aerovault"), text),
    stamp: (text) => stamp(text, { set: { a: "b" } }),
    "sign with a key": (text) => sign(at("m.apr"), { key: text }),
    "verify with digests": (text) => verify(at("m.gguf"), { digests: text }),
    "a cache": (text) => inspect("http://127.0.0.1:9/x", { cache: text }),
    pull: (text) => pull("http://127.0.0.1:9/x", text),
    push: (text) => push(text, "s3://bucket/x"),
    serve: (text) => serve(text),
    view: (text) => view(text),
    keygen: (text) => keygen(text),
    "correct generate": (text) => correct.generate(text),
    "correct repair": (text) => correct.repair(at("m.gguf"), { output: text }),
    "aeroset update": (text) => aeroset.update(text, at("m.gguf")),
    fileSource: (text) => fileSource(text),
    fileSink: (text) => fileSink(text),
    createVault: (text) => createVault(text, { encryption: false }),
    repairVault: (text) => repairVault(text),
  };
  test.each(Object.entries(calls))("%s", async (_what, call) => {
    for (const text of WRONG) await expect(call(text), text).rejects.toMatchObject({ code: "usage/file-url" });
  });

  test("the error does not repeat a password", async () => {
    const error = await inspect("file://user:secret@host/x").catch((thrown: unknown) => thrown);
    expect(JSON.stringify(error)).not.toContain("secret");
  });
});

test("a file URL is a path, wherever the library takes one", async () => {
  const source = await fileSource(url("m.gguf"));
  expect(source.byteLength).toBe(readFileSync(at("m.gguf")).byteLength);
  await source.close();
  await (await fileSink(pathToFileURL(at("empty")))).commit();
  expect(readFileSync(at("empty")).byteLength).toBe(0);
  expect(await keygen(url("pair"))).toMatchObject({ privateKey: at("pair.key"), publicKey: at("pair.pub") });
  expect(await correct.generate(url("m.gguf"), { output: url("s") })).toMatchObject({ sidecar: at("s") });
  expect(await correct.verify(url("m.gguf"), { sidecar: url("s") })).toMatchObject({ ok: true, file: at("m.gguf") });
  expect(await correct.repair(url("m.gguf"), { sidecar: url("s"), output: url("r") })).toMatchObject({
    output: at("r"),
  });
  expect(await sign(url("m.apr"), { key: url("pair.key") })).toMatchObject({ place: "inside" });
  await using vault = await openVault(url("v.aerovault"), { encryption: false });
  expect(await vault.add(url("r"))).toMatchObject({ files: 1 });
  expect(namesIn(folders.ours)).not.toContain("file:");
});

test("an edit that was interrupted is finished through a file URL too", async () => {
  await stamp(at("m.gguf"), { set: { "general.name": "aaaa" } });
  const model = readFileSync(at("m.gguf"));
  await recordPatches(at("m.gguf"), [
    { offset: model.indexOf("aaaa"), before: encodeUtf8("aaaa"), after: encodeUtf8("bbbb") },
  ]);
  await stamp(url("m.gguf"), { set: { other: "1" } });
  expect((await inspect(at("m.gguf"))).metadata).toMatchObject({ "general.name": "bbbb", other: "1" });
});

describe("an address is no folder", () => {
  const SECRET = "https://user:secret@models.example/x/";
  test.each([SECRET, "s3://bucket/x/", "ftp://models.example/"])("%s", async (address) => {
    const before = readdirSync(".");
    const refused = { code: "unsupported/scheme" };
    await expect(pull("http://127.0.0.1:9/m.gguf", address)).rejects.toMatchObject(refused);
    await expect(pull("http://127.0.0.1:9/m.gguf", address, { include: "a" })).rejects.toMatchObject(refused);
    await expect(inspect("http://127.0.0.1:9/m.gguf", { cache: address })).rejects.toMatchObject(refused);
    await expect(correct.generate(at("m.gguf"), { output: address })).rejects.toMatchObject(refused);
    const said = await pull("http://127.0.0.1:9/m.gguf", address).catch((error: unknown) => JSON.stringify(error));
    expect(said).not.toContain("secret");
    expect(readdirSync(".")).toEqual(before);
  });

  test("nor is a path in a vault", async () => {
    const call = pull("http://127.0.0.1:9/m.gguf", `${at("v.aerovault")}::in`);
    await expect(call).rejects.toMatchObject({ code: "usage/vault.output" });
  });
});

describe("what an option names is never replaced, whatever force says", () => {
  const own = { code: "usage/own-input" };
  const force = true;

  test("metadata, a vocabulary, a key, a list of digests", async () => {
    writeFileSync(at("meta.gguf"), '{"general.name":"x"}');
    const metadata = at("meta.gguf");
    await expect(convert(at("m.safetensors"), metadata, { metadata, force })).rejects.toMatchObject(own);
    expect(readFileSync(metadata, "utf8")).toBe('{"general.name":"x"}');

    const key = at("release.key");
    const before = readFileSync(key);
    await expect(sign(at("m.apr"), { key, output: key, force })).rejects.toMatchObject(own);
    expect(readFileSync(key)).toEqual(before);
  });

  test("other files are replaced as before", async () => {
    writeFileSync(at("meta.json"), '{"general.name":"x"}');
    await convert(at("m.safetensors"), at("m.gguf"), { metadata: at("meta.json"), force });
    await cat(at("m.gguf"), "model.norm.weight", at("meta.json"), { force });
    expect(existsSync(at("meta.json"))).toBe(true);
  });
});
