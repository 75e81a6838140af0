import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { callTare, scratch } from "./run-tare.ts";
import { smallSafetensors } from "./small-models.ts";

describe("convert --verify", () => {
  it.each(["safetensors", "gguf", "aero"])("reads %s back and leaves what convert leaves", async (extension) => {
    const file = scratch();
    const model = file("m.safetensors", smallSafetensors());
    const uuid = extension === "aero" ? ["--uuid", "00".repeat(16)] : [];
    const [plain, verified] = [file(`plain.${extension}`), file(`verified.${extension}`)];
    const runs = await Promise.all([
      callTare(["convert", model, plain, ...uuid]),
      callTare(["convert", model, verified, "--verify", ...uuid]),
    ]);
    expect(runs.map(({ code }) => code)).toEqual([0, 0]);
    expect(readFileSync(verified).equals(readFileSync(plain))).toBe(true);
    expect(readdirSync(file("."))).toHaveLength(3);
  });

  it("refuses a pipe, before anything is read or written", async () => {
    const run = await callTare(["convert", "no-such-file.gguf", "-", "--to", "gguf", "--verify"]);
    expect(run).toMatchObject({ code: 2, out: "", err: expect.stringContaining("[usage/verify-output]") });
  });
});

describe("an AERO file with digests of whole chunks only", () => {
  it("is compared with them by convert and extract, so that nothing was taken unverified", async () => {
    const file = scratch();
    const plain = file("plain.aero");
    await callTare(["convert", file("m.safetensors", smallSafetensors()), plain]);
    const runs = await Promise.all([
      callTare(["convert", plain, file("a.safetensors")]),
      callTare(["convert", plain, file("b.safetensors"), "--json"]),
      callTare(["extract", plain, "-o", file("c")]),
      callTare(["convert", plain, file("d.safetensors"), "--include", "model.norm.weight"]),
    ]);
    expect(runs.map(({ code }) => code)).toEqual([0, 0, 0, 0]);
    expect(runs.map(({ err }) => err)).toEqual(["", "", "", ""]);
    expect(JSON.parse(runs[1]?.out ?? "")).toMatchObject({ notes: [] });
  });
});
