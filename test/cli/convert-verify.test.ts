import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { scratch, tare } from "./run-tare.ts";
import { smallSafetensors } from "./small-models.ts";

describe("convert --verify", () => {
  it.each(["safetensors", "gguf", "aero"])("reads %s back and leaves what convert leaves", async (extension) => {
    const file = scratch();
    const model = file("m.safetensors", smallSafetensors());
    const uuid = extension === "aero" ? ["--uuid", "00".repeat(16)] : [];
    const [plain, verified] = [file(`plain.${extension}`), file(`verified.${extension}`)];
    const runs = await Promise.all([
      tare(["convert", model, plain, ...uuid]),
      tare(["convert", model, verified, "--verify", ...uuid]),
    ]);
    expect(runs.map(({ code }) => code)).toEqual([0, 0]);
    expect(readFileSync(verified).equals(readFileSync(plain))).toBe(true);
    expect(readdirSync(file("."))).toHaveLength(3);
  });

  it("refuses a pipe, before anything is read or written", async () => {
    const run = await tare(["convert", "no-such-file.gguf", "-", "--to", "gguf", "--verify"]);
    expect(run).toMatchObject({ code: 2, out: "", err: expect.stringContaining("[usage/verify-output]") });
  });
});

describe("what was taken unverified", () => {
  it("is told by convert and extract, where the input has digests of whole chunks only", async () => {
    const file = scratch();
    const [plain, hashed] = [file("plain.aero"), file("hashed.aero")];
    const model = file("m.safetensors", smallSafetensors());
    await Promise.all([
      tare(["convert", model, plain]),
      tare(["convert", model, hashed, "--page-hashes", "--tensor-hashes"]),
    ]);
    const told = expect.stringMatching(/\d+ tensors were taken unverified: .* tare verify/);
    const runs = await Promise.all([
      tare(["convert", plain, file("a.safetensors")]),
      tare(["convert", plain, file("b.safetensors"), "--json"]),
      tare(["extract", plain, "-o", file("c")]),
      tare(["convert", hashed, file("d.safetensors")]),
      tare(["extract", hashed, "-o", file("e")]),
      tare(["convert", model, file("f.gguf"), "--json"]),
    ]);
    expect(runs.map(({ code }) => code)).toEqual([0, 0, 0, 0, 0, 0]);
    const [a, b, c, d, e, f] = runs;
    expect([a?.err, c?.err]).toEqual([told, told]);
    expect(JSON.parse(b?.out ?? "")).toMatchObject({ notes: [told] });
    expect([d?.err, e?.err]).toEqual(["", ""]);
    expect(f?.out).not.toContain("unverified");
  });

  it("counts only tensors that were asked for", async () => {
    const file = scratch();
    const plain = file("plain.aero");
    await tare(["convert", file("m.safetensors", smallSafetensors()), plain]);
    const listed = JSON.parse((await tare(["ls", plain, "--json"])).out) as {
      tensors: { name: string; byteLength: number }[];
    };
    const name = listed.tensors.find(({ byteLength }) => byteLength > 0)?.name ?? "";
    const one = await tare(["convert", plain, file("one.safetensors"), "--include", name]);
    expect(one).toMatchObject({ code: 0, err: expect.stringContaining("1 tensor was taken unverified") });
  });
});
