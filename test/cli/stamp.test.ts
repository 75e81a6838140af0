import { readdirSync, readFileSync, statSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { encodeUtf8 } from "../../src/base/text.ts";
import { recordPatches } from "../../src/platform/node/files/patch.ts";
import { callTare, scratch } from "./run-tare.ts";
import { smallGguf, smallSafetensors } from "./small-models.ts";

const json = ({ out }: { readonly out: string }): Record<string, unknown> => JSON.parse(out) as Record<string, unknown>;

describe("stamp", () => {
  it("edits a file in its place, writes another with -o, and gives both the same bytes", async () => {
    const file = scratch();
    const model = file("m.safetensors", smallSafetensors());
    const before = readFileSync(model);
    const copied = await callTare([
      "stamp",
      model,
      "--set",
      "license=MIT",
      "--set",
      "n=5",
      "-o",
      file("out.safetensors"),
    ]);
    expect(copied).toMatchObject({ code: 0, err: "" });
    expect(readFileSync(model)).toEqual(before);
    expect(await callTare(["stamp", model, "--set", "license=MIT", "--set", "n=5"])).toMatchObject({ code: 0 });
    expect(readFileSync(model)).toEqual(readFileSync(file("out.safetensors")));
    const { metadata } = json(await callTare(["inspect", model, "--json"]));
    expect(metadata).toMatchObject({ license: "MIT", n: "5" });

    const { ino } = statSync(model);
    const smaller = await callTare(["stamp", model, "--unset", "n", "--json"]);
    expect(json(smaller)).toMatchObject({
      mode: "in place",
      changes: [{ key: "n", before: { type: "string", value: "5" }, after: null }],
    });
    expect(statSync(model).ino).toBe(ino);
    expect(json(await callTare(["stamp", model, "--unset", "license", "--rewrite", "--json"]))).toMatchObject({
      mode: "rewritten",
    });
    expect(readdirSync(file(".")).sort()).toEqual(["m.safetensors", "out.safetensors"]);
  });

  it("takes keys from a file, lets typed ones win, and writes nothing with --dry-run", async () => {
    const file = scratch();
    const model = file("m.gguf", smallGguf());
    const before = readFileSync(model);
    const card = file("card.json", new TextEncoder().encode('{"general.name":"from file","x":1}'));
    const edit = ["stamp", model, "--from", card, "--set", "x=2", "--json"];
    expect(json(await callTare([...edit, "--dry-run"]))).toMatchObject({ dryRun: true });
    expect(readFileSync(model)).toEqual(before);
    expect(await callTare(edit)).toMatchObject({ code: 0 });
    expect(json(await callTare(["inspect", model, "--json"])).metadata).toMatchObject({
      "general.name": "from file",
      x: 2,
    });
    expect(json(await callTare(edit))).toMatchObject({ mode: "nothing", changes: [] });
    expect(await callTare(["verify", model, "--full"])).toMatchObject({ code: 0 });
  });

  it("refuses what makes no sense, each with its own code", async () => {
    const file = scratch();
    const model = file("m.gguf", smallGguf());
    const refused = async (...args: string[]): Promise<unknown> => {
      const { code, out } = await callTare(["stamp", ...args, "--json"]);
      return [code, (JSON.parse(out) as { code?: string }).code];
    };
    expect(await refused(model)).toEqual([2, "usage/stamp.empty"]);
    expect(await refused(model, "--set", "novalue")).toEqual([2, "usage/flag-value"]);
    expect(await refused(model, "--set", "general.alignment=64")).toEqual([2, "usage/stamp.key"]);
    expect(await refused(model, "--set", "a=1", "-o", model)).toEqual([2, "usage/exists"]);
  });

  it("tells that a signature beside the file no longer fits, and drops one inside only when asked", async () => {
    const file = scratch();
    const model = file("m.apr");
    await callTare(["convert", file("m.safetensors", smallSafetensors()), model]);
    await callTare(["keygen", "-o", file("k"), "-q"]);
    await callTare(["sign", model, "--key", file("k.key")]);
    const signed = readFileSync(model);
    expect(await callTare(["stamp", model, "--set", "a=1"])).toMatchObject({ code: 6 });
    expect(readFileSync(model)).toEqual(signed);
    expect(await callTare(["stamp", model, "--set", "a=1", "--unsign"])).toMatchObject({ code: 0 });
    expect(await callTare(["verify", model])).toMatchObject({ code: 0 });

    const beside = file("m.gguf", smallGguf());
    await callTare(["sign", beside, "--key", file("k.key")]);
    const noted = await callTare(["stamp", beside, "--set", "a=1"]);
    expect(noted.code).toBe(0);
    expect(noted.err).toMatch(/m\.gguf\.sig was made before this edit/);
  });

  it("finishes an edit that a crash interrupted before it does anything else", async () => {
    const file = scratch();
    const model = file("m.gguf", smallGguf());
    await callTare(["stamp", model, "--set", "general.name=aaaa"]);
    const old = readFileSync(model);
    const edit = { offset: old.indexOf("aaaa"), before: encodeUtf8("aaaa"), after: encodeUtf8("bbbb") };
    await recordPatches(model, [edit]);
    const { code, err } = await callTare(["stamp", model, "--set", "other=1"]);
    expect(code).toBe(0);
    expect(err).toMatch(/finished an earlier edit/);
    expect(json(await callTare(["inspect", model, "--json"])).metadata).toMatchObject({
      "general.name": "bbbb",
      other: 1,
    });
    expect(readdirSync(file("."))).toEqual(["m.gguf"]);
  });

  it("refuses the journal of someone else, which readers ignore", async () => {
    const file = scratch();
    const model = file("m.gguf", smallGguf());
    await callTare(["stamp", model, "--set", "general.name=aaaa"]);
    const old = readFileSync(model);
    const elsewhere = { XDG_STATE_HOME: file("state") };
    await recordPatches(model, [{ offset: 0, before: old.subarray(0, 4), after: encodeUtf8("FAKE") }], elsewhere);
    const shown = await callTare(["inspect", model, "--json"]);
    expect(shown.code).toBe(0);
    expect(json(shown).metadata).toMatchObject({ "general.name": "aaaa" });
    expect(shown.err).toContain(".m.gguf.tare-stamp");
    expect(await callTare(["stamp", model, "--set", "other=1"])).toMatchObject({ code: 8 });
    expect(readFileSync(model)).toEqual(old);
  });
});
