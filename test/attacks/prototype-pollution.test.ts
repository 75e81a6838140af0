import { afterEach, describe, expect, test } from "vitest";
import { encodeJson } from "../../cli/render/json.ts";
import { resolveLimits } from "../../src/base/limits.ts";
import { encodeUtf8 } from "../../src/base/text.ts";
import { memoryOutput } from "../../src/bytes/memory.ts";
import { GGUF_LIMITS } from "../../src/formats/gguf/limits.ts";
import { planConversion, writeConversion } from "../../src/operations/convert.ts";
import { inspect, metadataToJson } from "../../src/operations/inspect.ts";
import { portableEngine } from "../../src/primitives/portable.ts";
import { withOrigin } from "../builders/crafted-files.ts";
import { buildGguf, byteTensor, text } from "../builders/gguf.ts";
import { WRITERS } from "../builders/loaded-formats.ts";
import { patternBytes, rawSafetensors } from "../builders/safetensors.ts";
import { conversionOptions, openBytes } from "./open-bytes.ts";

/** Names that a reader with plain objects would write onto Object.prototype, or find there. */
const NAMES = ["__proto__", "constructor", "prototype", "toString", "hasOwnProperty", "valueOf", "__defineGetter__"];

const before = Object.getOwnPropertyNames(Object.prototype).sort();
afterEach(() => {
  expect(Object.getOwnPropertyNames(Object.prototype).sort()).toEqual(before);
  expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
});

const safetensorsFile = () => {
  const entries = NAMES.map((name, i) => `"${name}":{"dtype":"U8","shape":[1],"data_offsets":[${i},${i + 1}]}`);
  const metadata = NAMES.map((name) => `"${name}":"{\\"polluted\\":true}"`);
  return rawSafetensors(`{"__metadata__":{${metadata}},${entries}}`, patternBytes(NAMES.length));
};

const ggufFile = () =>
  buildGguf({
    kvs: NAMES.map((key) => ({ key, type: 8, value: text('{"polluted":true}') })),
    tensors: NAMES.map((name, i) => byteTensor(name, 1, 32 * i)),
    data: patternBytes(32 * NAMES.length),
  });

describe("names of Object.prototype are names like any other", () => {
  test.each([
    ["SafeTensors", safetensorsFile],
    ["GGUF", ggufFile],
  ])("%s: tensors and metadata keep them, JSON shows them", async (_, make) => {
    const opened = await openBytes(make());
    const { container } = opened;
    if (container.kind !== "model") throw new Error("not a model");
    expect(container.tensors.map(({ name }) => name)).toEqual(NAMES);
    for (const name of NAMES) {
      expect(container.tensor(name).byteLength).toBe(1);
      expect(container.metadata.text(name)).toBe('{"polluted":true}');
    }
    const json = metadataToJson(inspect(opened).metadata);
    expect(Object.keys(json)).toEqual(NAMES);
    expect(Object.getPrototypeOf(json)).toBe(Object.prototype);
    const printed = encodeJson({ metadata: json }, "compact");
    expect(printed).toContain('"__proto__":"{');
    expect(Object.keys((JSON.parse(printed) as { metadata: object }).metadata)).toEqual(NAMES);
  });
  test("names that are not there are not found on the prototype", async () => {
    const { container } = await openBytes(buildGguf());
    if (container.kind !== "model") throw new Error("not a model");
    for (const name of NAMES) {
      expect(container.metadata.get(name)).toBeUndefined();
      expect(() => container.tensor(name)).toThrow(/Cannot find tensor/);
    }
  });
  test.each([
    ["SafeTensors", safetensorsFile],
    ["GGUF", ggufFile],
  ])("%s: every conversion carries them", async (_, make) => {
    const opened = await openBytes(make());
    for (const target of WRITERS) {
      const output = memoryOutput("out");
      const conversion = planConversion(opened, target, conversionOptions("out"));
      await writeConversion(conversion, output, { engine: portableEngine() });
      const written = await openBytes(output.files.get("out") ?? new Uint8Array(0), "out", output.files);
      if (written.container.kind !== "model") throw new Error("not a model");
      expect(written.container.tensors.map(({ name }) => name).sort()).toEqual([...NAMES].sort());
      for (const name of NAMES) expect(written.container.metadata.text(name)).toBe('{"polluted":true}');
    }
  });
  test("an index may map __proto__, and a dtype or field of that name is unknown", async () => {
    const index = encodeUtf8('{"metadata":{"__proto__":{"polluted":true}},"weight_map":{"__proto__":"s.safetensors"}}');
    const shard = rawSafetensors('{"__proto__":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', patternBytes(1));
    const { container } = await openBytes(index, "m.safetensors.index.json", new Map([["s.safetensors", shard]]));
    if (container.kind !== "model") throw new Error("not a model");
    expect(container.tensor("__proto__").byteLength).toBe(1);
    for (const dtype of NAMES) {
      const bytes = rawSafetensors(`{"w":{"dtype":"${dtype}","shape":[0],"data_offsets":[0,0]}}`);
      await expect(openBytes(bytes)).rejects.toMatchObject({ code: "unsupported/safetensors.dtype" });
    }
  });
  test("tare.origin with such keys neither pollutes nor counts as facts", async () => {
    const origin =
      '{"chain":[{"format":"gguf","facts":{"__proto__":{"version":2,"polluted":true}}}],"__proto__":{"order":[0]}}';
    const opened = await openBytes(withOrigin(origin));
    for (const target of WRITERS) {
      const { plan } = planConversion(opened, target, conversionOptions("out"));
      // Facts of another format's link are no facts of the target: it writes as many files as without them.
      const plain = planConversion(await openBytes(withOrigin("{}")), target, conversionOptions("out")).plan;
      expect(plan.files.map(({ name }) => name)).toEqual(plain.files.map(({ name }) => name));
      expect(Object.hasOwn(Object.prototype, "polluted")).toBe(false);
    }
  });
  test("limits of that name change nothing", () => {
    const overrides = JSON.parse('{"__proto__":{"gguf":{"keys":1}},"gguf":{"__proto__":{"keys":1}}}') as object;
    expect(resolveLimits("gguf", GGUF_LIMITS, overrides as never).keys).toBe(GGUF_LIMITS.keys.default);
  });
});
