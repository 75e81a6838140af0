import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import * as tare from "../../src/platform/node/index.ts";
import { createVault, openVault } from "../../src/platform/node/vault/library.ts";
import { callTare } from "./run-tare.ts";
import { smallGguf } from "./small-models.ts";

let folder: string;
let model: string;
beforeAll(() => {
  folder = join(mkdtempSync(join(tmpdir(), "tare-urls-")), "a folder, 100% ü");
  mkdirSync(folder);
  model = join(folder, "m #1?.gguf");
  writeFileSync(model, smallGguf());
  writeFileSync(join(folder, "pw"), "a long secret");
});
afterAll(() => rmSync(join(folder, ".."), { recursive: true }));

const at = (name: string): string => join(folder, name);
const address = (name: string): string => pathToFileURL(at(name)).href;

async function ok(...args: readonly string[]): Promise<string> {
  const { code, out, err } = await callTare(args);
  expect({ code, err }).toEqual({ code: 0, err: expect.any(String) });
  return out;
}

describe("a file:// address is a path", () => {
  it("for a TARGET, with and without localhost, in any case", async () => {
    const url = address("m #1?.gguf");
    expect(url).toContain("%20");
    const wanted = await ok("ls", model);
    for (const typed of [url, url.replace("file://", "file://localhost"), url.replace("file://", "FILE://")]) {
      expect(await ok("ls", typed)).toBe(wanted);
    }
    const raw = join(folder, "plain.gguf");
    copyFileSync(model, raw);
    expect(await ok("ls", `file://${raw.replace("%", "%25")}`)).toBe(wanted);
  });

  it("for outputs, files of flags, vaults and what is in them", async () => {
    await ok("convert", address("m #1?.gguf"), address("made.aero"));
    await ok("convert", address("m #1?.gguf"), "-o", address("named.aero"));
    await ok("keygen", "-o", address("release"));
    await ok("sign", address("made.aero"), "--key", address("release.key"));
    const given = ["--password-file", address("pw")];
    await ok("vault", "create", address("v.aerovault"), ...given);
    await ok("vault", "add", address("v.aerovault"), address("m #1?.gguf"), ...given);
    expect(await ok("ls", `${address("v.aerovault")}::m #1?.gguf`, ...given)).toBe(await ok("ls", model));
    await ok("correct", "gen", address("m #1?.gguf"), "-o", address("side"));
    await ok("correct", "verify", address("m #1?.gguf"), "--sidecar", address("side"));
    expect(
      ["made.aero", "named.aero", "release.key", "v.aerovault", "side"].filter((name) => !existsSync(at(name))),
    ).toEqual([]);
  });

  it.each([
    ["another host", "file://server/share/m.gguf"],
    ["no host that parses", "file://a b/m.gguf"],
    ["a slash in a name", "file:///tmp/a%2Fb"],
    ["no escape", "file:///tmp/100%.gguf"],
    ["a query", "file:///tmp/m.gguf?raw"],
    ["a fragment", "file:///tmp/m.gguf#w"],
  ])("but not with %s", async (_, typed) => {
    expect(await callTare(["inspect", typed])).toMatchObject({
      code: 2,
      err: expect.stringMatching(/usage\/file-url[\s\S]*hint /),
    });
    expect(await callTare(["convert", model, typed])).toMatchObject({ code: 2 });
    await expect(tare.inspect(typed)).rejects.toMatchObject({ code: "usage/file-url" });
  });
});

describe("the library takes URLs of files, and their text", () => {
  const url = (name: string): URL => pathToFileURL(at(name));

  it("in every verb that takes a path", async () => {
    const input = url("m #1?.gguf");
    expect((await tare.list(input)).tensors).toEqual((await tare.list(model)).tensors);
    await tare.convert(input, url("library.aero"));
    await tare.convert(input.href, address("library2.aero"));
    await tare.keygen(url("library"));
    expect(existsSync(at("library.pub"))).toBe(true);
    await tare.correct.generate(input, { output: address("library.side") });
    expect(await tare.correct.verify(input, { sidecar: address("library.side") })).toMatchObject({ ok: true });
    expect(await tare.correct.repair(input, { sidecar: address("library.side") })).toMatchObject({ state: "intact" });
    const source = await tare.fileSource(input);
    expect(source.byteLength).toBe(readFileSync(model).byteLength);
    await source.close();
    const sink = await tare.fileSink(url("sink"));
    await sink.append(Uint8Array.of(1));
    await sink.commit();
    expect(readFileSync(at("sink"))).toHaveLength(1);
    const server = await tare.serve(pathToFileURL(folder), { port: 0, dryRun: true });
    expect(server.directory).toBe(folder);
    await expect(tare.push(input, "http://x/y")).rejects.toMatchObject({ code: "usage/arguments" });
  });

  it("for vaults", async () => {
    const vault = await createVault(url("library.aerovault"), { encryption: false });
    await vault.add([url("m #1?.gguf"), address("pw")]);
    await vault.close();
    const again = await openVault(url("library.aerovault"), { encryption: false });
    const names = again.entries.map(({ path }) => path);
    await again.close();
    expect(names.sort()).toEqual(["m #1?.gguf", "pw"]);
  });
});
