import { existsSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { Bytes } from "../../src/base/bytes.ts";
import { loadFixture } from "../support/fixtures.ts";
import { callTare, scratch } from "./run-tare.ts";

const fixture = (name: string): Bytes => loadFixture("embd", name);

/** 0, 1, 2, 3, 4, 5 as float32. */
const W = "000000000000803f0000004000004040000080400000a040";

describe("EMBD on the command line", () => {
  it("knows all three layouts by content, and hands out their tensors", async () => {
    const file = scratch();
    for (const name of ["tiny", "stream", "adr"]) {
      const model = file(`${name}.bin`, fixture(name));
      expect((await callTare(["cat", model, "w", "-o", file(`${name}.w`)])).code).toBe(0);
      expect(readFileSync(file(`${name}.w`)).toString("hex")).toBe(W);
    }
    const inspected = JSON.parse((await callTare(["inspect", file("stream.bin"), "--json"])).out) as object;
    expect(inspected).toMatchObject({ format: "embd", version: "1" });
    expect((await callTare(["map", file("tiny.bin")])).out).toMatch(/451\s+16 B\s+integrity\s+footer/);
  });

  it("verify ends with 5 for damaged files and 4 for cut ones, and names the checksum", async () => {
    const file = scratch();
    const damaged = fixture("tiny").slice();
    damaged[0x142] = 1;
    const report = await callTare(["verify", file("b.weights", damaged), "--full"]);
    expect(report.code).toBe(5);
    expect(report.out + report.err).toContain("integrity/embd.data-checksum");
    expect(await callTare(["verify", file("c.weights", fixture("tiny").slice(0, 466))])).toMatchObject({ code: 4 });
    expect(await callTare(["verify", file("d.weights", fixture("trailing"))])).toMatchObject({ code: 4 });
  });

  it("convert does not make a whole-looking file of a damaged one", async () => {
    const file = scratch();
    const damaged = fixture("tiny").slice();
    damaged[0x142] = 1;
    const source = file("b.weights", damaged);
    for (const more of [[], ["--dry-run"]]) {
      const run = await callTare(["convert", source, file("b.safetensors"), ...more]);
      expect(run).toMatchObject({ code: 5 });
      expect(run.err).toContain("integrity/embd.data-checksum");
    }
    expect(existsSync(file("b.safetensors"))).toBe(false);
    const accepted = await callTare(["convert", source, file("b.safetensors"), "--allow-lossy"]);
    expect(accepted).toMatchObject({ code: 0 });
    expect(accepted.err).toContain("warning: The tensor data is damaged");
    const footer = fixture("tiny").slice();
    const at = footer.byteLength - 16;
    footer[at] = (footer[at] as number) ^ 1;
    const whole = await callTare(["convert", file("f.weights", footer), file("f.safetensors")]);
    expect(whole).toMatchObject({ code: 0 });
    expect(whole.err).toContain("warning: The footer is damaged");
  });

  it("convert there and back gives the same bytes, and turns transposed weights", async () => {
    const file = scratch();
    const tiny = file("tiny.weights", fixture("tiny"));
    expect(await callTare(["convert", tiny, file("t.safetensors")])).toMatchObject({ code: 0 });
    expect(await callTare(["convert", file("t.safetensors"), file("back.weights")])).toMatchObject({ code: 0 });
    expect(readFileSync(file("back.weights"))).toEqual(Buffer.from(fixture("tiny")));
    // The time of a source is the date of its model, and these two are not written in the same second.
    const env = { SOURCE_DATE_EPOCH: "1700000000" };
    for (const name of ["stream-bert", "stream-bert-turned"]) {
      const source = file(`${name}.bin`, fixture(name));
      expect(await callTare(["convert", source, file(`${name}.weights`)], { env })).toMatchObject({ code: 0 });
    }
    expect(readFileSync(file("stream-bert.weights"))).toEqual(readFileSync(file("stream-bert-turned.weights")));
  });
});
