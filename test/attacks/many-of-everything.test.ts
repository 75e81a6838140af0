import { expect, it } from "vitest";
import type { Finding } from "../../src/model/finding.ts";
import type { Opened } from "../../src/model/format.ts";
import { verify } from "../../src/operations/verify.ts";
import { portableEngine } from "../../src/primitives/portable.ts";
import { JsonScanner } from "../../src/struct/json-scanner.ts";
import { buildSet, SET_NAME } from "../builders/aeroset.ts";
import { buildOnnx } from "../builders/onnx.ts";
import { memoryModel } from "../builders/tensors.ts";
import { openBytes } from "./open-bytes.ts";

/** Files that have a hundred thousand of something: lists that do not fit into a call, and graphs that are walked in circles. */

it("an ONNX graph whose values are their own users is walked once", async () => {
  // Each of these nodes is a user of what all of them make: four steps of them are 10^13 ways.
  const nodes = Array.from({ length: 2000 }, () => ({ op: "Mul", inputs: ["v", "v"], outputs: ["v"] }));
  const product = { op: "MatMul", inputs: ["x", "w"], outputs: ["v"] };
  const tensors = [{ name: "w", dims: [1, 1], raw: new Uint8Array(4) }];
  const { container } = await openBytes(buildOnnx({ nodes: [product, ...nodes], tensors }), "m.onnx");
  expect(container.kind === "model" && container.tensors.map(({ name }) => name)).toEqual(["w"]);
});

it("verify takes more warnings than a call has room for", async () => {
  const warning: Finding = { severity: "warning", code: "format/x", message: "odd", at: { source: "m" } };
  const container = { ...memoryModel([]), warnings: Array.from({ length: 300_000 }, () => warning) };
  const reader = { sections: () => [] };
  const format = { id: "test", name: "Test", verify: async () => ({ async *verify() {} }) };
  const opened = { container, format, reader, notes: [] } as unknown as Opened;
  const { findings } = await verify(opened, { level: "full", engine: portableEngine() });
  expect(findings).toHaveLength(300_000);
});

it("a place in a JSON text is counted from the nearest place that is known, in any order", () => {
  const text = Array.from({ length: 30_000 }, (_, i) => "aä€"[i % 3]).join("");
  const scanner = new JsonScanner(text, { source: "m", offset: 7, what: "JSON" });
  for (const index of [0, 29_999, 4095, 4096, 4097, 12_288, 5, 20_000, 30_000, 40_000]) {
    const expected = new TextEncoder().encode(text.slice(0, index)).byteLength;
    expect(scanner.locate(index).offset, String(index)).toBe(7 + expected);
  }
});

it("a set names the place of each of its files", async () => {
  const files = buildSet();
  files.delete("part-001.aero");
  const json = new TextDecoder().decode(files.get(SET_NAME));
  const { container } = await openBytes(files.get(SET_NAME) as Uint8Array<ArrayBuffer>, SET_NAME, files);
  const offset = json.indexOf('"part-001.aero"');
  if (container.kind !== "model") throw new Error("not a model");
  await expect(container.tensor("t2").bytes()).rejects.toMatchObject({ at: { offset, path: "parts[1].path" } });
});
