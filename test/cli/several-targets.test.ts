import { mkdirSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { buildSafetensors } from "../builders/safetensors.ts";
import { callTare, scratch } from "./run-tare.ts";
import { floats, smallGguf } from "./small-models.ts";

function models(): (name: string, bytes?: Uint8Array | string) => string {
  const file = scratch();
  file("a.gguf", smallGguf());
  file("cut.gguf", smallGguf().subarray(0, 60));
  const tensor = (name: string, count: number, dtype = "F32") => {
    const width = dtype === "F32" ? 4 : 2;
    return { name, dtype, shape: [count], bytes: floats(...new Array(count).fill(1)).subarray(0, count * width) };
  };
  file("b.safetensors", buildSafetensors([tensor("b", 2), tensor("c", 8, "F16"), tensor('a,"x"', 6)]));
  return file;
}

describe("several TARGETs", () => {
  test.each(["inspect", "verify", "ls"])("%s shows each under its name", async (verb) => {
    const file = models();
    const both = [file("a.gguf"), file("b.safetensors")];
    const { code, out } = await callTare([verb, ...both]);
    expect(code).toBe(0);
    const [first, second] = both.map((path) => out.indexOf(path));
    expect(first).toBeGreaterThanOrEqual(0);
    expect(second).toBeGreaterThan(first as number);
    const found = JSON.parse((await callTare([verb, ...both, "--json"])).out) as { target: string }[];
    expect(found.map(({ target }) => target)).toEqual(both);
    const alone = JSON.parse((await callTare([verb, both[1] as string, "--json"])).out) as object;
    const { cost: _, ...rest } = { cost: 0, ...alone };
    expect(found[1]).toMatchObject(rest);
    expect(found).toHaveLength(2);
  });

  test.each(["nope.gguf", "nope/"])("ls says that %s is no file, where no tensor has the name", async (typed) => {
    const file = models();
    const { code, err } = await callTare(["ls", file("a.gguf"), file(typed)]);
    expect(code).toBe(9);
    expect(err).toMatch(/hint {2}No file is called ".*" either, so it was taken for a GLOB/);
  });

  test("the gravest decides, and a target that cannot be read does not hide the others", async () => {
    const file = models();
    const targets = [file("missing.gguf"), file("a.gguf"), file("cut.gguf")];
    const { code, out, err } = await callTare(["verify", ...targets]);
    expect(code).toBe(4);
    expect(out).toContain(file("a.gguf"));
    expect(err).toContain("source/not-found");
    const json = await callTare(["inspect", ...targets.slice(0, 2), "--json"]);
    expect(json.code).toBe(9);
    expect(json.err).toBe("");
    expect(JSON.parse(json.out)).toMatchObject([
      { target: targets[0], type: "error", code: "source/not-found" },
      { target: targets[1], format: "gguf" },
    ]);
  });

  test("ls tells a TARGET from a GLOB by its file; the report of all of them goes into one file", async () => {
    const file = models();
    const [a, b] = [file("a.gguf"), file("b.safetensors")];
    expect((await callTare(["ls", b, "c"])).out.trim().split("\n")).toHaveLength(1);
    const two = JSON.parse((await callTare(["ls", b, a, "*", "--json"])).out) as { tensors: object[] }[];
    expect(two.map(({ tensors }) => tensors.length > 0)).toEqual([true, true]);
    const none = await callTare(["ls", b, "nothing"]);
    expect(none.code).toBe(9);
    mkdirSync(file("models"));
    expect((await callTare(["ls", b, `${file("models")}/`])).code).toBe(9);
    expect(await callTare(["ls", a, b, "-o", file("report.txt")])).toMatchObject({ code: 0, out: "" });
  });
});

describe("ls --sort and --csv", () => {
  const names = async (path: string, order: string): Promise<string[]> => {
    const { out } = await callTare(["ls", path, "--sort", order, "--json"]);
    return (JSON.parse(out) as { tensors: { name: string }[] }).tensors.map(({ name }) => name);
  };

  test("sorts by size, name, offset and type", async () => {
    const path = models()("b.safetensors");
    expect(await names(path, "size")).toEqual(['a,"x"', "c", "b"]);
    expect(await names(path, "name")).toEqual(['a,"x"', "b", "c"]);
    expect(await names(path, "offset")).toEqual(["b", "c", 'a,"x"']);
    expect(await names(path, "dtype")).toEqual(["c", "b", 'a,"x"']);
    expect((await callTare(["ls", path, "--sort", "size"])).out.split("\n")[0]).toContain('a,"x"');
  });

  test("writes a table as RFC 4180 has it, with the target where there are several", async () => {
    const file = models();
    const path = file("b.safetensors");
    const { out } = await callTare(["ls", path, "--sort", "name", "--csv"]);
    const lines = out.split("\r\n");
    expect(lines[0]).toBe("name,dtype,shape,byteLength,offset,storedByteLength,file");
    expect(lines[1]).toMatch(/^"a,""x""",F32,6,24,\d+,24,$/);
    expect(lines.slice(2)).toEqual([expect.stringMatching(/^b,F32,2,8,/), expect.stringMatching(/^c,F16,8,16,/), ""]);
    const both = await callTare(["ls", path, file("a.gguf"), "--csv"]);
    expect(both.out.split("\r\n").slice(0, 2)).toEqual([
      "target,name,dtype,shape,byteLength,offset,storedByteLength,file",
      expect.stringContaining(`${path},b,F32`),
    ]);
    expect((await callTare(["ls", path, "--csv", "--json"])).code).toBe(2);
  });

  test("a vault has sizes and names alone", async () => {
    const file = models();
    const vault = file("v.aerovault");
    await callTare(["vault", "create", vault, "--no-encryption"]);
    await callTare(["vault", "add", vault, file("a.gguf"), file("b.safetensors"), "--no-encryption"]);
    const { out } = await callTare(["ls", vault, "--sort", "name", "--csv"]);
    expect(out.split("\r\n").map((line) => line.split(",")[0])).toEqual(["path", "a.gguf", "b.safetensors", ""]);
    expect(await callTare(["ls", vault, "--sort", "dtype"])).toMatchObject({ code: 2 });
    expect(await callTare(["ls", vault, file("a.gguf"), "--csv"])).toMatchObject({ code: 2 });
  });
});
