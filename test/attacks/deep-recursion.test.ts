import { describe, expect, test } from "vitest";
import { isTareError } from "../../src/base/errors.ts";
import { encodeUtf8 } from "../../src/base/text.ts";
import { memoryOutput } from "../../src/bytes/memory.ts";
import { planConversion, writeConversion } from "../../src/operations/convert.ts";
import { inspect, metadataToJson } from "../../src/operations/inspect.ts";
import { portableEngine } from "../../src/primitives/portable.ts";
import { nestedArrays, nestedHeader, withOrigin } from "../builders/crafted-files.ts";
import { WRITERS } from "../builders/loaded-formats.ts";
import { rawSafetensors } from "../builders/safetensors.ts";
import { conversionOptions, openBytes, refusalOf } from "./open-bytes.ts";

/** Far more than a stack holds. */
const LEVELS = 100_000;

describe("nesting is bounded before it is followed", () => {
  test("JSON in a field that is skipped", async () => {
    expect((await refusalOf(nestedHeader(LEVELS))).code).toBe("limit/json.depth");
    const { container } = await openBytes(nestedHeader(100));
    expect(container.kind).toBe("model");
  });
  test("JSON in place of a tensor, in metadata, and never closed", async () => {
    for (const header of [
      `{"w":${'{"a":'.repeat(LEVELS)}1${"}".repeat(LEVELS)}}`,
      `{"__metadata__":{"a":${"[".repeat(LEVELS)}`,
      `{"w":{"x":${"[".repeat(LEVELS)}`,
    ]) {
      expect((await refusalOf(rawSafetensors(header))).code).toMatch(/^(format|limit)\//);
    }
  });
  test("JSON in the metadata of an index", async () => {
    const deep = "[".repeat(LEVELS) + "]".repeat(LEVELS);
    const index = encodeUtf8(`{"metadata":{"x":${deep}},"weight_map":{}}`);
    expect((await refusalOf(index)).code).toBe("limit/json.depth");
  });
  test("GGUF arrays of arrays", async () => {
    expect((await refusalOf(nestedArrays(LEVELS))).code).toBe("limit/gguf.array-depth");
    const opened = await openBytes(nestedArrays(7));
    expect(JSON.stringify(metadataToJson(inspect(opened).metadata))).toBe(`{"deep":${"[".repeat(8)}${"]".repeat(8)}}`);
  });

  /** Origins are JSON inside metadata: readers that trust their own notes forget that anyone can write them. */
  const value = `${'{"array":['.repeat(LEVELS)}{"u8":"1"}${"]}".repeat(LEVELS)}`;
  const facts = `{"x":${"[".repeat(LEVELS)}${"]".repeat(LEVELS)}}`;
  const base64 = Buffer.from(nestedArrays(LEVELS).slice(24 + 8 + 4)).toString("base64");
  test.each([
    ["a carried value", `{"chain":[],"entries":[["x","array","json",${value}]]}`],
    [
      "a carried map",
      `{"chain":[],"entries":[["x","map","json",${value.replaceAll('"array":[', '"map":[["k",').replaceAll("]}", "]]}")}]]}`,
    ],
    ["a carried GGUF value", `{"chain":[],"entries":[["x","array","gguf","${base64}"]]}`],
    ["facts for another format", `{"chain":[{"format":"other","facts":${facts}}]}`],
    ["facts for GGUF", `{"chain":[{"format":"gguf","facts":${facts}}]}`],
    ["facts for SafeTensors", `{"chain":[{"format":"safetensors","facts":${facts}}]}`],
  ])("tare.origin with %s", async (_, origin) => {
    const opened = await openBytes(withOrigin(origin));
    metadataToJson(inspect(opened).metadata);
    for (const target of WRITERS) {
      const outcome: unknown = await (async () => {
        const conversion = planConversion(opened, target, conversionOptions("out"));
        await writeConversion(conversion, memoryOutput("out"), { engine: portableEngine() });
      })().catch((error: unknown) => error);
      expect(outcome === undefined || isTareError(outcome), `${target.format.id}: ${String(outcome)}`).toBe(true);
    }
  });
});
