import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { memoryOutput } from "../../src/bytes/memory.ts";
import { cat, convert, inspect, list, stats, verify } from "../../src/platform/node/index.ts";
import { buildGguf, byteTensor, text, u32 } from "../builders/gguf.ts";
import { buildSafetensors } from "../builders/safetensors.ts";
import { callTare } from "../cli/run-tare.ts";
import { startRangeServer } from "../support/range-server.ts";

const NAMES = ["a", "b", "c", "d"];
const BYTES = 1000;
const DATA = Uint8Array.from({ length: 4 * 1024 }, (_, i) => (i % 1024 < BYTES ? i % 251 : 0));
const GGUF = buildGguf({
  kvs: [
    { key: "general.architecture", type: 8, value: text("llama") },
    { key: "llama.block_count", type: 4, value: u32(4) },
  ],
  tensors: NAMES.map((name, i) => byteTensor(name, BYTES, i * 1024)),
  data: DATA,
});
/** The middle of the third tensor. */
const CUT = GGUF.slice(0, GGUF.byteLength - 1500);
const SAFETENSORS = buildSafetensors(
  NAMES.map((name) => ({ name, dtype: "U8", shape: [BYTES], bytes: DATA.slice(0, BYTES) })),
);

let folder: string;
const at = (name: string): string => join(folder, name);
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tare-cut-"));
  writeFileSync(at("cut.gguf"), CUT);
  writeFileSync(at("cut.safetensors"), SAFETENSORS.slice(0, SAFETENSORS.byteLength - 1500));
  writeFileSync(at("whole.gguf"), GGUF);
  const run = await callTare(["shard", at("whole.gguf"), "-o", at("set"), "--max-size", "1100"]);
  expect(run).toMatchObject({ code: 0 });
});
afterAll(() => rmSync(folder, { recursive: true }));

const fault = { code: "format/gguf.truncated" };

describe("a GGUF whose end is missing", () => {
  test("is shown by inspect and ls, with what is missing", async () => {
    const { tensorCount, metadata, warnings, byteLength, files } = await inspect(at("cut.gguf"));
    expect({ tensorCount, byteLength, files: files[0]?.byteLength }).toEqual({
      tensorCount: 4,
      byteLength: CUT.byteLength,
      files: CUT.byteLength,
    });
    expect(metadata["llama.block_count"]).toBe(4);
    expect(warnings).toMatchObject([{ ...fault, severity: "warning" }]);
    expect(warnings[0]?.message).toContain("The last 1500 bytes are missing");
    expect(warnings[0]?.message).toContain('2 of 4 tensors: "c", "d"');
    const listed = await list(at("cut.gguf"));
    expect(listed.tensors?.map(({ name }) => name)).toEqual(NAMES);
    expect(listed.warnings).toEqual(warnings);
    const run = await callTare(["ls", at("cut.gguf")]);
    expect(run).toMatchObject({ code: 0, err: expect.stringContaining("1500 bytes are missing") });
  });

  test("gives the tensors that it has, and the rows", async () => {
    const written = memoryOutput("b");
    const { warnings } = await cat(at("cut.gguf"), "b", written);
    expect(written.files.get("b")).toEqual(DATA.slice(1024, 1024 + BYTES));
    expect(warnings).toMatchObject([fault]);
    await cat(at("cut.gguf"), "c", memoryOutput("c"), { rows: "0:10" });
    await expect(cat(at("cut.gguf"), "c", memoryOutput("x"))).rejects.toMatchObject(fault);
    await expect(cat(at("cut.gguf"), "d", memoryOutput("x"))).rejects.toMatchObject(fault);
  });

  test("is refused by what needs all of it", async () => {
    await expect(convert(at("cut.gguf"), at("out.safetensors"))).rejects.toMatchObject(fault);
    const some = { include: "a", allowLossy: true };
    await expect(convert(at("cut.gguf"), at("out.safetensors"), some)).rejects.toMatchObject(fault);
    await expect(stats(at("cut.gguf"))).rejects.toMatchObject(fault);
    expect(await verify(at("cut.gguf"))).toMatchObject({ ok: false, findings: [{ ...fault, severity: "error" }] });
    expect((await callTare(["verify", at("cut.gguf")])).code).toBe(4);
  });

  test("is the same over HTTP, and in a vault", async () => {
    const server = await startRangeServer(CUT, "/cut.gguf");
    try {
      const { url } = server;
      expect((await inspect(url)).warnings).toMatchObject([fault]);
      const written = memoryOutput("a");
      await cat(url, "a", written);
      expect(written.files.get("a")).toEqual(DATA.slice(0, BYTES));
      await expect(cat(url, "d", memoryOutput("x"))).rejects.toMatchObject(fault);
    } finally {
      await server.close();
    }
    const vault = at("v.aerovault");
    await callTare(["vault", "create", vault, "--no-encryption"]);
    expect((await callTare(["vault", "add", vault, at("cut.gguf")])).code).toBe(0);
    expect((await list(`${vault}::cut.gguf`)).tensors).toHaveLength(4);
  });

  test("may be one file of a set", async () => {
    const files = (await inspect(at("set"))).files.map(({ label }) => label);
    const [, second = ""] = files;
    const { readFileSync } = await import("node:fs");
    const part = readFileSync(second);
    writeFileSync(second, part.subarray(0, part.byteLength - 600));
    const { tensorCount, warnings } = await inspect(at("set"));
    expect(tensorCount).toBe(4);
    expect(warnings).toMatchObject([{ ...fault, at: { source: second } }]);
    expect(warnings[0]?.message).toContain('1 of 4 tensors: "b"');
    await cat(at("set"), "c", memoryOutput("c"));
    await expect(cat(at("set"), "b", memoryOutput("b"))).rejects.toMatchObject(fault);
  });
});

test("a SafeTensors file whose end is missing is shown as well", async () => {
  const { tensorCount, warnings } = await inspect(at("cut.safetensors"));
  expect(tensorCount).toBe(4);
  expect(warnings).toMatchObject([{ code: "format/safetensors.truncated", severity: "warning" }]);
  await cat(at("cut.safetensors"), "b", memoryOutput("b"));
  expect(await verify(at("cut.safetensors"))).toMatchObject({ ok: false });
});
