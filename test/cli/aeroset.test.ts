import { readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, it } from "vitest";
import { buildApr } from "../builders/apr.ts";
import { callTare, scratch } from "./run-tare.ts";
import { smallSafetensors } from "./small-models.ts";

/** Two parts: the small model's four tensors in shards of at most 16 bytes, two to a part. */
const CUT = ["--max-shard-size", "16", "--max-part-shards", "2"];

describe("convert to AEROSET", () => {
  it("fills a folder, comes back byte for byte, and is refused where a set is", async () => {
    const file = scratch();
    const model = file("m.safetensors", smallSafetensors());
    const made = await callTare(["convert", model, `${file("set")}/`, "--to", "aeroset", ...CUT]);
    expect(made).toMatchObject({ code: 0, out: expect.stringContaining("AEROSET, 4 tensors") });
    expect(readdirSync(file("set")).sort()).toEqual([
      "index.aero",
      "model.aeroset.json",
      "part-000.aero",
      "part-001.aero",
    ]);
    const back = await callTare(["convert", file("set"), file("back.safetensors")]);
    expect(back.code).toBe(0);
    expect(readFileSync(file("back.safetensors")).equals(smallSafetensors())).toBe(true);
    expect(await callTare(["verify", file("set"), "--full"])).toMatchObject({ code: 0 });
    const again = await callTare(["convert", model, file("set/model.aeroset.json"), ...CUT]);
    expect(again).toMatchObject({ code: 2, err: expect.stringContaining("usage/exists") });
  });

  it("names its files after the JSON, refuses files that are in the way, and replaces them with --force", async () => {
    const file = scratch();
    const args = ["convert", file("m.safetensors", smallSafetensors()), file("x.aeroset.json"), ...CUT];
    file("x-part-001.aero", "somebody else's");
    const refused = await callTare(args);
    expect(refused).toMatchObject({ code: 2, err: expect.stringContaining('x-part-001.aero": it exists already') });
    expect(readdirSync(dirname(file("x"))).sort()).toEqual(["m.safetensors", "x-part-001.aero"]);
    expect((await callTare([...args, "--force"])).code).toBe(0);
    expect(await callTare(["verify", file("x.aeroset.json"), "--full"])).toMatchObject({ code: 0 });
  });

  it("refuses an address that must not be published", async () => {
    const file = scratch();
    const args = ["convert", file("m.safetensors", smallSafetensors()), file("x.aeroset.json")];
    const run = await callTare([...args, "--base-url", "https://host/m?token=secret"]);
    expect(run).toMatchObject({ code: 2, err: expect.stringContaining("usage/aeroset.base-url") });
    expect(run.err).not.toContain("secret");
  });
});

describe("aeroset update", () => {
  it("replaces one part and leaves the others alone", async () => {
    const file = scratch();
    const model = file("m.safetensors", smallSafetensors());
    await callTare(["convert", model, `${file("set")}/`, "--to", "aeroset", ...CUT]);
    const untouched = statSync(join(file("set"), "part-000.aero"), { bigint: true });
    await callTare(["convert", join(file("set"), "part-001.aero"), file("part.aero"), "--dtype", "f32"]);
    const dry = await callTare(["aeroset", "update", file("set"), file("part.aero"), "--dry-run", "--json"]);
    const schema: object = JSON.parse(
      readFileSync(new URL("../../schemas/aeroset.schema.json", import.meta.url), "utf8"),
    );
    const validate = new Ajv2020({ allErrors: true }).compile(schema);
    expect(validate(JSON.parse(dry.out)) ? [] : validate.errors).toEqual([]);
    expect(JSON.parse(dry.out)).toMatchObject({ dryRun: true, part: 1, replaced: "part-001.aero", removed: [] });
    expect(readdirSync(file("set"))).toContain("part-001.aero");
    const run = await callTare(["aeroset", "update", file("set"), file("part.aero")]);
    expect(run).toMatchObject({ code: 0, out: expect.stringContaining("replaced part 1") });
    const names = readdirSync(file("set")).sort();
    expect(names).toEqual([
      expect.stringMatching(/^index\.[0-9a-f]{8}\.aero$/),
      "model.aeroset.json",
      "part-000.aero",
      expect.stringMatching(/^part-001\.[0-9a-f]{8}\.aero$/),
    ]);
    const after = statSync(join(file("set"), "part-000.aero"), { bigint: true });
    expect([after.ino, after.mtimeNs]).toEqual([untouched.ino, untouched.mtimeNs]);
    expect(await callTare(["verify", file("set"), "--full"])).toMatchObject({ code: 0 });
  });

  it("refuses to drop keys that nobody here knows, unless it is told to", async () => {
    const file = scratch();
    const model = file("m.safetensors", smallSafetensors());
    await callTare(["convert", model, file("s.aeroset.json"), ...CUT]);
    await callTare(["convert", file("s-part-001.aero"), file("part.aero"), "--dtype", "f32"]);
    const json: object = JSON.parse(readFileSync(file("s.aeroset.json"), "utf8"));
    file("s.aeroset.json", JSON.stringify({ ...json, license: "MIT" }));
    const update = ["aeroset", "update", file("s.aeroset.json"), file("part.aero")];
    expect(await callTare(update)).toMatchObject({ code: 13, err: expect.stringContaining('"license"') });
    expect(readFileSync(file("s.aeroset.json"), "utf8")).toContain("MIT");
    expect(await callTare([...update, "--allow-lossy"])).toMatchObject({
      code: 0,
      err: expect.stringContaining('"license"'),
    });
  });

  it("refuses a part that is made of shards of several models, and one with bytes that nothing refers to", async () => {
    const file = scratch();
    const one = (fill: number) => ({ name: "a", data: new Uint8Array(64).fill(fill) });
    await callTare(["convert", file("m.apr", buildApr({ tensors: [one(1)] })), file("s.aeroset.json")]);
    const before = readFileSync(file("s.aeroset.json"), "utf8");
    const shard = buildApr({ flags: 0x0a, tensors: [one(2)] });
    const manifest = {
      apr_version: "2.0.0",
      sharded: true,
      shard_count: 1,
      shards: [{ file: "x.apr", size: shard.byteLength, crc32: "00000000" }],
      tensor_shard_map: { a: 0 },
    };
    file("x.apr", shard);
    const update = ["aeroset", "update", file("s.aeroset.json")];
    const mixed = await callTare([...update, file("x.manifest.json", JSON.stringify(manifest))]);
    expect(mixed).toMatchObject({ code: 5, err: expect.stringContaining("integrity/apr.shard-crc") });
    const stray = buildApr({ tensors: [one(3)], beforeFooter: Uint8Array.of(1) });
    expect(await callTare([...update, file("stray.apr", stray)])).toMatchObject({
      code: 13,
      err: expect.stringContaining("unsupported/lossy"),
    });
    expect(readFileSync(file("s.aeroset.json"), "utf8")).toBe(before);
  });

  it("refuses what is no set, no part, or another verb", async () => {
    const file = scratch();
    const model = file("m.safetensors", smallSafetensors());
    await callTare(["convert", model, file("s.aeroset.json")]);
    const [verb, notASet, part] = await Promise.all([
      callTare(["aeroset", "remove", file("s.aeroset.json"), model]),
      callTare(["aeroset", "update", model, model]),
      callTare(["aeroset", "update", file("s.aeroset.json"), model, "--part", "3"]),
    ]);
    expect(verb).toMatchObject({ code: 2, err: expect.stringContaining('must be "aeroset update"') });
    expect(notASet).toMatchObject({ code: 2, err: expect.stringContaining("usage/aeroset.container") });
    expect(part).toMatchObject({ code: 2, err: expect.stringContaining("usage/aeroset.no-part") });
  });
});
