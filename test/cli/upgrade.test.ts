import { readFileSync } from "node:fs";
import { Ajv2020 } from "ajv/dist/2020.js";
import { expect, it } from "vitest";
import { buildApr1, buildAprn, f32 } from "../builders/apr-layouts.ts";
import { buildSafetensors } from "../builders/safetensors.ts";
import { callTare, scratch } from "./run-tare.ts";

const OLD = buildApr1('{"model":"t"}', [{ name: "w", shape: [2], bytes: f32(1, 2) }]);

it("upgrade writes the layout of the specification, which upgrade then refuses", async () => {
  const file = scratch();
  const out = file("new.apr");
  const run = await callTare(["upgrade", file("old.apr", OLD), out, "--json"]);
  expect(run.code, run.err).toBe(0);
  const schema = JSON.parse(readFileSync(new URL("../../schemas/upgrade.schema.json", import.meta.url), "utf8"));
  expect(new Ajv2020().validate(schema, JSON.parse(run.out))).toBe(true);
  expect(readFileSync(out).subarray(0, 4).toString()).toBe("APR2");
  expect((await callTare(["verify", out, "--full"])).code).toBe(0);
  expect((await callTare(["upgrade", out, file("newer.apr")])).code).toBe(2);
  expect((await callTare(["upgrade", file("again.apr", OLD), out])).err).toContain("usage/exists");
});

it("upgrade refuses APRN unless it may wrap its payload", async () => {
  const file = scratch();
  const aprn = file("old.apr", buildAprn({ payload: Uint8Array.of(1, 2, 3) }));
  expect((await callTare(["upgrade", aprn, file("a.apr")])).code).toBe(6);
  expect((await callTare(["upgrade", aprn, file("a.apr"), "--wrap"])).code).toBe(0);
});

it("convert --layout aprender writes what aprender reads, and only APR has layouts", async () => {
  const file = scratch();
  const model = file("m.safetensors", buildSafetensors([{ name: "w", dtype: "F32", shape: [2], bytes: f32(1, 2) }]));
  const out = file("m.apr");
  expect((await callTare(["convert", model, out, "--layout", "aprender"])).code).toBe(0);
  expect(readFileSync(out).subarray(0, 5)).toEqual(Buffer.from("APR\0\x02"));
  expect((await callTare(["convert", out, file("back.safetensors")])).code).toBe(0);
  expect(readFileSync(file("back.safetensors"))).toEqual(readFileSync(model));
  expect((await callTare(["convert", model, file("m.gguf"), "--layout", "aprender"])).code).toBe(2);
});
