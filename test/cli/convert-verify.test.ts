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
