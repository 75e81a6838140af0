import { describe, expect, test } from "vitest";
import {
  buildOnnx,
  field,
  numberField,
  type OnnxFile,
  type OnnxTensor,
  tensorProto,
} from "../../../test/builders/onnx.ts";
import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { memorySource } from "../../bytes/memory.ts";
import { portableEngine } from "../../primitives/portable.ts";
import type { OnnxModel } from "./model.ts";
import { openOnnx } from "./read.ts";

const floats = (...values: readonly number[]): Bytes => new Uint8Array(Float32Array.from(values).buffer);
const open = (bytes: Bytes): Promise<OnnxModel> =>
  openOnnx(memorySource(bytes, "m.onnx"), { engine: portableEngine(), limits: {} });
const one = (tensor: Partial<OnnxTensor>, more: OnnxFile = {}): Bytes =>
  buildOnnx({ ...more, tensors: [{ name: "w", dims: [2], raw: floats(1, 2), ...tensor }] });

/** A StringStringEntryProto as a field. */
const pair = (number: number, key: string, value: string): Bytes =>
  field(number, concatBytes([field(1, key), field(2, value)]));

describe("openOnnx() keeps", () => {
  test("the graph's own words and its quantisation annotations", async () => {
    const annotation = concatBytes([
      field(1, "w"),
      pair(2, "SCALE_TENSOR", "w_scale"),
      pair(2, "ZERO_POINT_TENSOR", "w_zp"),
    ]);
    const graph = [field(10, "made by hand"), pair(16, "stage", "final"), field(14, annotation)];
    const model = await open(one({}, { graph }));
    expect(model.metadata.text("onnx.graph.doc_string")).toBe("made by hand");
    expect(model.metadata.text("onnx.graph.metadata_props.stage")).toBe("final");
    const parameters = [
      { key: "SCALE_TENSOR", value: { type: "string", value: "w_scale" } },
      { key: "ZERO_POINT_TENSOR", value: { type: "string", value: "w_zp" } },
    ];
    expect(model.metadata.get("onnx.graph.quantization_annotation")).toEqual({
      type: "map",
      entries: [{ key: "w", value: { type: "map", entries: parameters } }],
    });
    expect(model.unread).toEqual([]);
  });
  test("the words of tensors, also of those in nodes", async () => {
    const constant = tensorProto({ name: "", dims: [1], raw: floats(3), extra: [field(12, "three")] });
    const node = concatBytes([
      field(2, "c"),
      field(4, "Constant"),
      field(5, concatBytes([field(1, "value"), field(5, constant)])),
    ]);
    const extra = [field(12, "the weight"), pair(16, "origin", "layer 1")];
    const model = await open(one({ extra }, { graph: [field(1, node)] }));
    const words = (key: string, text: string) => ({ key, value: { type: "string", value: text } });
    const props = { key: "metadata_props", value: { type: "map", entries: [words("origin", "layer 1")] } };
    expect(model.metadata.get("onnx.tensors")).toEqual({
      type: "map",
      entries: [
        { key: "w", value: { type: "map", entries: [words("doc_string", "the weight"), props] } },
        { key: "c", value: { type: "map", entries: [words("doc_string", "three")] } },
      ],
    });
    expect(model.unread).toEqual([]);
  });
  test("the last of two doc_strings, as in protobuf, in model, graph and tensor", async () => {
    const [twice, again] = [
      [field(12, "first"), field(12, "last")],
      [field(10, "first"), field(10, "last")],
    ];
    const model = await open(one({ extra: twice }, { graph: again, model: [field(6, "first"), field(6, "last")] }));
    expect(model.metadata.text("onnx.doc_string")).toBe("last");
    expect(model.metadata.text("onnx.graph.doc_string")).toBe("last");
    expect(JSON.stringify(model.metadata.get("onnx.tensors"))).toMatch(/"last"/);
    expect(JSON.stringify(model.metadata.get("onnx.tensors"))).not.toMatch(/"first"/);
    const told = { reason: expect.stringContaining("first") };
    const names = ["graph.initializer[0].doc_string", "graph.doc_string", "model.doc_string"];
    expect(model.unread).toEqual(names.map((name) => ({ name, ...told })));
  });
  test("every value that protobuf takes from the last of two fields, and tells the first as a loss", async () => {
    const fields = [field(2, "tare"), field(2, "tare"), field(2, "other"), field(4, "a"), field(4, "b")];
    const model = await open(one({ extra: [field(8, "v")] }, { graph: [field(2, "g"), field(2, "h")], model: fields }));
    expect(model.tensors.map(({ name }) => name)).toEqual(["v"]);
    expect((model.unread ?? []).map(({ name }) => name).sort()).toEqual(
      expect.arrayContaining(["graph.initializer[0].name", "graph.name", "model.domain", "model.producer_name"]),
    );
  });
  test("properties under other names, if theirs are taken", async () => {
    const props = [
      ["onnx.ir_version", "a"],
      ["onnx.metadata_props.onnx.ir_version", "b"],
      ["onnx.graph.doc_string", "c"],
      ["onnx.tensors", "d"],
    ] as const;
    const { metadata } = await open(one({}, { props, graph: [field(10, "doc")] }));
    const keys = metadata.entries.map(({ key }) => key);
    expect(new Set(keys).size).toBe(keys.length);
    const texts = metadata.entries.flatMap(({ value }) => (value.type === "string" ? [value.value] : []));
    for (const text of ["a", "b", "c", "d", "doc"]) expect(texts).toContain(text);
  });
});

test.each<readonly [string, Bytes, string]>([
  ["an unknown field of the model", one({}, { model: [numberField(99, 1)] }), "ModelProto field 99"],
  ["an unknown field of the graph", one({}, { graph: [field(98, "x")] }), "GraphProto field 98"],
  ["an unknown field of a tensor", one({ extra: [field(97, "x")] }), "TensorProto field 97"],
  ["an unknown field of a property", one({}, { model: [field(14, field(3, "x"))] }), "StringStringEntryProto field 3"],
  ["a second value of a graph's property", one({}, { graph: [pair(16, "k", "1"), pair(16, "k", "2")] }), "k"],
  ["a second value of a tensor's property", one({ extra: [pair(16, "k", "1"), pair(16, "k", "2")] }), "k"],
])("openOnnx() lists as unread %s", async (_what, bytes, name) => {
  const model = await open(bytes);
  expect(model.unread).toEqual([{ name, reason: expect.any(String) }]);
});

test("openOnnx() lists a hundred kinds of unknown fields, and the number of the others", async () => {
  const model = await open(one({}, { model: Array.from({ length: 5000 }, (_, i) => numberField(1000 + i, 1)) }));
  expect(model.unread).toHaveLength(101);
  expect(model.unread.at(-1)?.name).toBe("4900 more fields");
});
