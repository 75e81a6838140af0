import { describe, expect, test } from "vitest";
import { mjsn, ONE_TWO_THREE, smallAero, withControlHash } from "../../test/builders/aero.ts";
import { buildApr } from "../../test/builders/apr.ts";
import { buildApr1, buildAprender } from "../../test/builders/apr-layouts.ts";
import { buildGguf, byteTensor, u32 } from "../../test/builders/gguf.ts";
import { READERS, writerById } from "../../test/builders/loaded-formats.ts";
import { buildSafetensors, patternBytes, rawSafetensors } from "../../test/builders/safetensors.ts";
import type { Bytes } from "../base/bytes.ts";
import { memoryOutput, memorySink, memorySource } from "../bytes/memory.ts";
import type { AeroModel } from "../formats/aero/model.ts";
import type { Opened } from "../model/format.ts";
import type { Model } from "../model/model.ts";
import { openSource } from "../open.ts";
import { portableEngine } from "../primitives/portable.ts";
import { decodeOverlay } from "./convert/given-metadata.ts";
import { planConversion, writeConversion } from "./convert.ts";
import {
  decodeEntered,
  type MetadataEdit,
  parseEntered,
  planStamp,
  type StampContext,
  type StampPlan,
  writeStamp,
} from "./stamp.ts";
import { verify } from "./verify.ts";

const engine = portableEngine();
const context: StampContext = { engine };
const WEIGHTS = patternBytes(200);
const LONG = "x".repeat(9000);

const open = (bytes: Bytes): Promise<Opened> => openSource(memorySource(bytes, "file"), { engine });

const set = (key: string, text: string): MetadataEdit => ({ kind: "set", key, entered: parseEntered(text) });
const unset = (key: string): MetadataEdit => ({ kind: "unset", key });

async function stamp(bytes: Bytes, ...edits: readonly MetadataEdit[]): Promise<StampPlan> {
  return planStamp(await open(bytes), edits, context);
}

async function resultOf(plan: StampPlan): Promise<Bytes> {
  const sink = memorySink();
  await writeStamp(plan, sink);
  await sink.commit();
  return sink.published as Bytes;
}

/** The file after the patches are written over it. */
function patched(bytes: Bytes, plan: StampPlan): Bytes {
  const copy = bytes.slice();
  for (const { offset, before, after } of plan.patches ?? []) {
    expect(copy.subarray(offset, offset + before.byteLength)).toEqual(before);
    copy.set(after, offset);
  }
  return copy;
}

const lossy = { code: "unsupported/lossy" };

describe("planStamp() refuses to lose", () => {
  const tensors = [{ name: "w", dtype: 0, dims: [2], data: patternBytes(8) }];
  const top = '{"apr_version":"2.0.0","model_type":"t","architecture":{},"k":1,"k":2}';
  const nested = '{"apr_version":"2.0.0","model_type":"t","architecture":{"k":1,"k":2}}';
  const wild = [{ name: "w", dtype: 0, shape: [2], bytes: patternBytes(8) }];

  test.each([
    ["APR", buildApr({ metadata: top, tensors })],
    ["APR, inside another value", buildApr({ metadata: nested, tensors })],
    ["aprender's APR", buildAprender({ metadata: top, tensors: wild })],
    ["aprender's APR, inside another value", buildAprender({ metadata: nested, tensors: wild })],
  ])("the first value of a key that comes twice: %s", async (_, bytes) => {
    await expect(stamp(bytes, set("note", "x"))).rejects.toMatchObject(lossy);
  });
  test("nothing where both values are the same", async () => {
    const metadata = '{"apr_version":"2.0.0","model_type":"t","architecture":{},"k":1,"k":1}';
    expect((await stamp(buildApr({ metadata, tensors }), set("note", "x"))).changes).toHaveLength(1);
  });
  test.each([
    ["APR", buildApr({ tensors }), (bytes: Bytes) => new DataView(bytes.buffer).getUint32(28, true) - 1],
    ["aprender's APR", buildAprender({ tensors: wild }), () => 127],
    [
      "GGUF",
      buildGguf({ tensors: [byteTensor("w", WEIGHTS.byteLength, 0)], data: WEIGHTS }),
      (bytes: Bytes) => bytes.byteLength - WEIGHTS.byteLength - 1,
    ],
  ] as const)("bytes before the tensors that belong to nothing: %s", async (_, good, placeOf) => {
    const bytes = good.slice();
    const place = placeOf(bytes);
    expect(bytes[place]).toBe(0);
    expect((await stamp(bytes, set("note", "x"))).changes).toHaveLength(1);
    bytes[place] = 7;
    await expect(stamp(bytes, set("note", "x"))).rejects.toMatchObject(lossy);
  });
  test("one of two values that are given", () => {
    const given = new TextEncoder().encode('{"a":{"b":1,"b":2}}');
    expect(() => decodeEntered(given, "f.json")).toThrow(
      expect.objectContaining({ code: "format/json.duplicate-key" }),
    );
    expect(() => decodeOverlay(given, "f.json")).toThrow(
      expect.objectContaining({ code: "format/json.duplicate-key" }),
    );
    expect(decodeEntered(new TextEncoder().encode('{"a":1,"a":1}'), "f.json")).toHaveLength(1);
  });
});

async function modelOf(bytes: Bytes): Promise<Model> {
  return (await open(bytes)).container as Model;
}

async function errorsIn(bytes: Bytes): Promise<readonly string[]> {
  const report = await verify(await open(bytes), { engine, level: "full" });
  // Old metadata may leave room behind, which is a note.
  return report.findings.filter(({ severity }) => severity !== "note").map(({ code }) => code);
}

const refusal = (run: Promise<unknown>): Promise<string> =>
  run.then(
    () => "stamped",
    (error: { code: string }) => error.code,
  );

const CARD = { license: "CC0-1.0", notes: "some text that can go" };

/** The same small model, made by our writers. */
async function written(format: string): Promise<Bytes> {
  const source = buildSafetensors(
    [
      { name: "a", dtype: "I8", shape: [200], bytes: WEIGHTS },
      { name: "b", dtype: "F32", shape: [3], bytes: ONE_TWO_THREE },
    ],
    { metadata: CARD },
  );
  const target = writerById(format);
  const name = `m${target.format.extensions[0]}`;
  const conversion = planConversion(await open(source), target, { name, formats: READERS });
  const output = memoryOutput(name);
  await writeConversion(conversion, output, { engine });
  return output.files.get(name) as Bytes;
}

const WRITTEN = ["safetensors", "gguf", "aero", "apr"] as const;

describe.each(WRITTEN)("planStamp() of %s", (format) => {
  test("edits in place if the room suffices, and the patches give the planned file", async () => {
    const bytes = await written(format);
    const plan = await stamp(bytes, set("license", "MIT-000"));
    expect(plan.changes).toMatchObject([{ key: "license", before: { value: "CC0-1.0" }, after: { value: "MIT-000" } }]);
    expect(plan.patches).toBeDefined();
    const edited = await resultOf(plan);
    expect(patched(bytes, plan)).toEqual(edited);
    expect(edited.byteLength).toBe(bytes.byteLength);
    expect(await errorsIn(edited)).toEqual(await errorsIn(bytes));
    const model = await modelOf(edited);
    expect(model.metadata.text("license")).toBe("MIT-000");
    expect(model.metadata.text("notes")).toBe(CARD.notes);
    expect(await model.tensor("a").bytes()).toEqual(WEIGHTS);
  });

  test("moves the tensors, with unchanged bytes, if it does not", async () => {
    const bytes = await written(format);
    const plan = await stamp(bytes, set("notes", LONG), unset("license"));
    expect(plan.patches).toBeUndefined();
    const edited = await resultOf(plan);
    expect(edited.byteLength).toBeGreaterThan(bytes.byteLength + 8000);
    expect(await errorsIn(edited)).toEqual(await errorsIn(bytes));
    const model = await modelOf(edited);
    expect(model.metadata.text("notes")).toBe(LONG);
    expect(model.metadata.get("license")).toBeUndefined();
    expect(await model.tensor("a").bytes()).toEqual(WEIGHTS);
    expect([...(await model.tensor("b").toFloat32())]).toEqual([1, 2, 3]);
    // And back again, any number of times.
    const again = await resultOf(await stamp(edited, set("notes", CARD.notes)));
    expect((await modelOf(again)).metadata.text("notes")).toBe(CARD.notes);
    expect(await (await modelOf(again)).tensor("a").bytes()).toEqual(WEIGHTS);
  });

  test("changes nothing if nothing differs, and names a missing key", async () => {
    const bytes = await written(format);
    const plan = await stamp(bytes, set("license", "CC0-1.0"), unset("licence"));
    expect(plan).toMatchObject({ changes: [], patches: [] });
    expect(plan.notes).toEqual(['There is no key "licence" to unset; did you mean "license"?']);
    expect(await resultOf(plan)).toEqual(bytes);
  });

  test("refuses no edits, and edits of tare.origin", async () => {
    const bytes = await written(format);
    expect(await refusal(stamp(bytes))).toBe("usage/stamp.empty");
    expect(await refusal(stamp(bytes, unset("tare.origin")))).toBe("usage/stamp.key");
  });
});

test("an edit wins in the next conversion over what tare.origin carried for the key", async () => {
  const gguf = buildGguf({
    kvs: [{ key: "list", type: 9, value: Uint8Array.from([4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0]) }],
    tensors: [byteTensor("t", 32, 0)],
    data: patternBytes(32),
  });
  const convert = async (bytes: Bytes, id: string): Promise<Bytes> => {
    const name = `m.${id}`;
    const output = memoryOutput(name);
    const plan = planConversion(await open(bytes), writerById(id), { name, formats: READERS });
    await writeConversion(plan, output, { engine });
    return output.files.get(name) as Bytes;
  };
  const safetensors = await convert(gguf, "safetensors");
  expect((await modelOf(safetensors)).metadata.get("list")).toBeUndefined();
  const edited = await resultOf(await stamp(safetensors, set("list", "none")));
  expect((await modelOf(await convert(edited, "gguf"))).metadata.text("list")).toBe("none");
  const removed = await resultOf(await stamp(safetensors, unset("list")));
  expect((await modelOf(await convert(removed, "gguf"))).metadata.get("list")).toBeUndefined();
});

describe("GGUF", () => {
  const bytes = buildGguf({
    kvs: [
      { key: "general.alignment", type: 4, value: u32(64) },
      { key: "n", type: 4, value: u32(7) },
      { key: "s", type: 6, value: new Uint8Array(Float32Array.of(0.5).buffer) },
    ],
    tensors: [byteTensor("t", 64, 0)],
    data: patternBytes(64),
    alignment: 64,
  });

  test.each([
    ["n", "8", { type: "u32", value: 8 }],
    ["n", '"9"', { type: "u32", value: 9 }],
    ["n", "-1", { type: "i32", value: -1 }],
    ["n", "1.5", { type: "f32", value: 1.5 }],
    ["n", "many", { type: "string", value: "many" }],
    ["s", "1", { type: "f32", value: 1 }],
    ["s", "0.1", { type: "f32", value: Math.fround(0.1) }],
    ["new", "4294967296", { type: "i64", value: 4294967296 }],
    ["new", "18446744073709551615", { type: "u64", value: 18446744073709551615n }],
    ["new", "true", { type: "bool", value: true }],
    ["new", '1,"":2', { type: "string", value: '1,"":2' }],
  ])("%s=%s becomes %o", async (key, text, value) => {
    const model = await modelOf(await resultOf(await stamp(bytes, set(key, text))));
    expect(model.metadata.get(key)).toMatchObject(value);
    expect(await model.tensor("t").bytes()).toEqual(await (await modelOf(bytes)).tensor("t").bytes());
  });

  test.each([
    ["[1,-2]", "i32", [1, -2]],
    ["[1,2.5]", "f32", [1, 2.5]],
    ["[1,9007199254740993]", "i64", [1, 9007199254740993n]],
    ['["a","b"]', "string", ["a", "b"]],
  ])("an array %s is of %s", async (text, elementType, values) => {
    const found = (await modelOf(await resultOf(await stamp(bytes, set("new", text))))).metadata.get("new");
    expect(found).toMatchObject({ type: "array", elementType });
    expect(found?.type === "array" && found.slice().map((item) => "value" in item && item.value)).toEqual(values);
  });

  test.each(["null", "{}", "[1,true]", "[[1]]"])("%s has no type", async (text) => {
    expect(await refusal(stamp(bytes, set("new", text)))).toBe("unsupported/stamp.value");
  });

  test("keys that determine the place of the data cannot be edited", async () => {
    for (const key of ["general.alignment", "split.count"]) {
      expect(await refusal(stamp(bytes, set(key, "32")))).toBe("usage/stamp.key");
    }
  });

  test("a file without tensors keeps what follows its header", async () => {
    const bare = buildGguf({ kvs: [{ key: "n", type: 4, value: u32(7) }] });
    const model = await modelOf(await resultOf(await stamp(bare, set("name", LONG))));
    expect(model.metadata.text("name")).toBe(LONG);
    expect(model.metadata.number("n")).toBe(7);
  });
});

describe("SafeTensors", () => {
  test("every character except the metadata stays, and spaces give the room", async () => {
    const header =
      '{ "t" : {"dtype":"U8","x":[null],"shape":[3],"data_offsets":[0,3]}, "__metadata__" : {"k":"v"} }   ';
    const bytes = rawSafetensors(header, patternBytes(3));
    const plan = await stamp(bytes, set("k", "5"));
    expect(plan.patches).toMatchObject([{ before: new Uint8Array([0x76]), after: new Uint8Array([0x35]) }]);
    const grown = await stamp(bytes, set("k", "four"));
    expect(grown.patches).toBeDefined();
    const text = new TextDecoder().decode((await resultOf(grown)).subarray(8, 8 + header.length));
    expect(text).toBe(`${header.trimEnd().replace('"v"', '"four"')}`);
  });

  test.each([
    ["{}", new Uint8Array(0), '{"__metadata__":{"k":"v"}}'],
    [
      '{"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
      patternBytes(1),
      '{"__metadata__":{"k":"v"},"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
    ],
  ])("metadata is put first in %s", async (header, data, wanted) => {
    const edited = await resultOf(await stamp(rawSafetensors(header, data), set("k", "v")));
    expect(new TextDecoder().decode(edited.subarray(8)).trimEnd().slice(0, wanted.length)).toBe(wanted);
    expect(edited.byteLength % 8).toBe(data.byteLength);
  });

  test("values of a JSON file become text", async () => {
    const entered = decodeEntered(new TextEncoder().encode('{"n":[1,2.0],"o":{"a":null},"t":"x"}'), "card.json");
    const edits = entered.map(([key, value]): MetadataEdit => ({ kind: "set", key, entered: value }));
    const { metadata } = await modelOf(await resultOf(await stamp(rawSafetensors("{}"), ...edits)));
    expect(["n", "o", "t"].map((key) => metadata.text(key))).toEqual(["[1,2.0]", '{"a":null}', "x"]);
  });
});

describe("APR", () => {
  const metadata = '{"apr_version":"2.0.0","model_type":"test","architecture":{},"rate":1.0,"label":"a"}';
  const tensors = [{ name: "t", dims: [100], data: patternBytes(100) }];
  const file = { metadata, tensors };

  test("types of JSON are kept: a float stays a float, text stays text", async () => {
    const edited = await resultOf(await stamp(buildApr(file), set("rate", "2"), set("label", "7"), set("new", "7")));
    const model = await modelOf(edited);
    expect(model.metadata.get("rate")).toEqual({ type: "f64", value: 2 });
    expect(model.metadata.get("label")).toEqual({ type: "string", value: "7" });
    expect(model.metadata.get("new")).toEqual({ type: "i64", value: 7 });
    expect(await errorsIn(edited)).toEqual([]);
  });

  test("earlier damage of a file is still detected", async () => {
    const bytes = buildApr(file);
    const damaged = bytes.slice();
    damaged[bytes.byteLength - 40] = 0x55;
    expect(await errorsIn(damaged)).toContain("integrity/apr.crc");
    for (const text of ["b", LONG]) {
      expect(await errorsIn(await resultOf(await stamp(damaged, set("label", text))))).toContain("integrity/apr.crc");
    }
  });

  test("keys that the specification requires stay", async () => {
    const bytes = buildApr(file);
    expect(await refusal(stamp(bytes, set("apr_version", "3.0.0")))).toBe("usage/stamp.key");
    expect(await refusal(stamp(bytes, unset("model_type")))).toBe("usage/stamp.key");
    expect(await refusal(stamp(bytes, set("architecture", "llama")))).toBe("usage/stamp.key");
    expect(await refusal(stamp(bytes, set("architecture", '{"layers":2}')))).toBe("stamped");
  });

  test("a signature is left out only on request", async () => {
    const signed = buildApr({ ...file, flags: 0x22, beforeFooter: patternBytes(96) });
    expect(await refusal(stamp(signed, set("label", "b")))).toBe("unsupported/stamp.signed");
    const plan = await planStamp(await open(signed), [set("label", "b")], { ...context, signature: "drop" });
    const edited = await resultOf(plan);
    expect(edited.byteLength).toBe(signed.byteLength - 96);
    expect(edited).toEqual(buildApr({ ...file, metadata: metadata.replace('"a"', '"b"') }));
    expect(await errorsIn(edited)).toEqual([]);
  });

  test("shards, encrypted files and other layouts are refused by name", async () => {
    expect(await refusal(stamp(buildApr({ ...file, flags: 0x0a }), set("label", "b")))).toBe("unsupported/stamp.set");
    const sealed = buildApr({ ...file, flags: 0x12 });
    expect(await refusal(stamp(sealed, set("label", "b")))).toBe("unsupported/stamp.encrypted");
    const wild = buildApr1(metadata, [{ name: "w", shape: [1], bytes: patternBytes(4) }]);
    expect(await refusal(stamp(wild, set("label", "b")))).toBe("unsupported/stamp.layout");
  });

  test.each(["b", LONG])("aprender's own layout keeps its checksums right", async (text) => {
    const wild = buildAprender({ metadata, tensors: [{ name: "w", dtype: 0, shape: [3], bytes: ONE_TWO_THREE }] });
    const plan = await stamp(wild, set("label", text));
    expect(plan.patches === undefined).toBe(text === LONG);
    const edited = await resultOf(plan);
    expect(await errorsIn(edited)).toEqual(await errorsIn(wild));
    const model = await modelOf(edited);
    expect(model.metadata.text("label")).toBe(text);
    expect([...(await model.tensor("w").toFloat32())]).toEqual([1, 2, 3]);
    edited[edited.byteLength - 20] = 0x77;
    expect(await errorsIn(edited)).toContain("integrity/apr.crc");
  });
});

describe("AERO", () => {
  const chunks = [mjsn({ model_name: "test", architecture: "linear", k: 1 }), ...smallAero().slice(1)];

  test.each(["x", LONG])("digests of chunks, control region and manifest are updated", async (name) => {
    const bytes = withControlHash({ chunks });
    expect(await errorsIn(bytes)).toEqual([]);
    const edited = await resultOf(await stamp(bytes, set("model_name", name)));
    expect(await errorsIn(edited)).toEqual([]);
    const model = (await modelOf(edited)) as AeroModel;
    expect(model.content.manifest).toEqual({ name, architecture: "linear" });
    expect(model.metadata.text("model_name")).toBe(name);
    expect(model.metadata.number("k")).toBe(1);
  });

  test("keys that determine how tensors are read cannot be edited", async () => {
    const bytes = withControlHash({ chunks });
    expect(await refusal(stamp(bytes, set("source_format", "gguf")))).toBe("usage/stamp.key");
  });

  test("a file without metadata is refused", async () => {
    const bytes = withControlHash({ chunks: smallAero().slice(2) });
    expect(await refusal(stamp(bytes, set("k", "1")))).toBe("unsupported/stamp.layout");
  });
});
