import { describe, expect, test } from "vitest";
import { buildOnnx, field, numberField, type OnnxFile, tensorProto, varint } from "../../../test/builders/onnx.ts";
import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { memorySource } from "../../bytes/memory.ts";
import { portableEngine } from "../../primitives/portable.ts";
import type { OnnxModel } from "./model.ts";
import { openOnnx } from "./read.ts";

const floats = (...values: readonly number[]): Bytes => new Uint8Array(Float32Array.from(values).buffer);
const open = (bytes: Bytes): Promise<OnnxModel> =>
  openOnnx(memorySource(bytes, "m.onnx"), { engine: portableEngine(), limits: {} });
/** A model with one initializer, w. */
const one = (more: OnnxFile): Bytes => buildOnnx({ ...more, tensors: [{ name: "w", dims: [2], raw: floats(1, 2) }] });

describe("openOnnx() of tensors in nodes", () => {
  test("lists the weights of Constant nodes, of attributes, of graphs inside nodes and of functions", async () => {
    const tensor = (name: string, ...values: readonly number[]): Bytes =>
      tensorProto({ name, dims: [values.length], raw: floats(...values) });
    const attribute = (name: string, ...fields: readonly Bytes[]): Bytes =>
      field(5, concatBytes([field(1, name), ...fields]));
    const node = (op: string, output: string, ...attributes: readonly Bytes[]): Bytes =>
      concatBytes([...attributes, field(2, output), field(4, op)]);
    const loose = (number: number, value: number): Bytes => concatBytes([varint(number * 8 + 5), floats(value)]);
    const branch = concatBytes([
      field(1, node("Constant", "w", attribute("value", field(5, tensor("", 5, 6))))),
      field(5, tensor("w", 7)),
      field(5, tensor("inner", 8)),
    ]);
    const nodes = [
      node("Constant", "tensor", attribute("value", field(5, tensor("other", 1, 2)))),
      node("Constant", "single", attribute("value_float", loose(2, 2.5))),
      node("Constant", "floats", attribute("value_floats", field(7, floats(3, 4)))),
      node("Constant", "loose", attribute("value_floats", loose(7, 1), loose(7, 2))),
      node("Constant", "int", attribute("value_int", numberField(3, -3))),
      node("Constant", "ints", attribute("value_ints", field(8, concatBytes([varint(300), varint(-1)])))),
      node(
        "LinearClassifier",
        "scores",
        attribute("coefficients", field(7, floats(9))),
        attribute("axis", numberField(3, 1)),
      ),
      node("If", "y", attribute("then_branch", field(6, branch))),
      node("Constant", "word", attribute("value_string", field(4, "x"))),
      node("Constant", "words", attribute("value_strings", field(9, "x"), field(9, "y"))),
      node("Pad", "padded", attribute("mode", field(4, "edge"))),
      node("Constant", "sparse", attribute("sparse_value", field(22, new Uint8Array(0)))),
      node(
        "Constant",
        "text",
        attribute("value", field(5, tensorProto({ name: "", type: 8, dims: [1], extra: [field(6, "x")] }))),
      ),
    ];
    const call = concatBytes([
      field(1, "f"),
      field(7, node("Constant", "w", attribute("value", field(5, tensor("", 10))))),
    ]);
    const model = await open(
      buildOnnx({
        tensors: [{ name: "w", dims: [1], raw: floats(0) }],
        graph: nodes.map((bytes) => field(1, bytes)),
        model: [field(25, call)],
      }),
    );
    const found = await Promise.all(
      model.tensors.map(async (item) => [item.name, item.dtype, item.shape, ...(await item.toFloat32())]),
    );
    expect(found).toEqual([
      ["w", "F32", [1], 0],
      ["tensor", "F32", [2], 1, 2],
      ["single", "F32", [], 2.5],
      ["floats", "F32", [2], 3, 4],
      ["loose", "F32", [2], 1, 2],
      ["int", "I64", [], -3],
      ["ints", "I64", [2], 300, -1],
      ["scores.coefficients", "F32", [1], 9],
      ["y.then_branch/w.value/w", "F32", [2], 5, 6],
      ["y.then_branch/w", "F32", [1], 7],
      ["inner", "F32", [1], 8],
      ["f/w.value/w", "F32", [1], 10],
    ]);
    const unread = ["word", "words", "text", "sparse_initializer"];
    expect(model.unread.map(({ name }) => name)).toEqual(unread);
    expect(model.warnings.map(({ name }) => name)).toEqual(unread);
  });
  test("gives distinct names to a hundred thousand constants of the same name", async () => {
    const constant = concatBytes([
      field(2, "c"),
      field(4, "Constant"),
      field(5, concatBytes([field(1, "value_int"), numberField(3, 1)])),
    ]);
    const model = await open(buildOnnx({ graph: Array.from({ length: 100_000 }, () => field(1, constant)) }));
    expect(new Set(model.tensors.map(({ name }) => name)).size).toBe(100_000);
  });
  test("lists a damaged constant as unread, and reads the others", async () => {
    const value = field(5, tensorProto({ name: "", dims: [3], raw: floats(1) }));
    const constant = concatBytes([
      field(2, "c"),
      field(4, "Constant"),
      field(5, concatBytes([field(1, "value"), value])),
    ]);
    const model = await open(one({ graph: [field(1, constant)] }));
    expect(model.tensors.map(({ name }) => name)).toEqual(["w"]);
    expect(model.unread).toMatchObject([{ name: "c" }]);
  });
  describe("a constant", () => {
    const constant = (name: string, ...fields: readonly Bytes[]): Bytes =>
      concatBytes([field(2, "c"), field(4, "Constant"), field(5, concatBytes([field(1, name), ...fields]))]);
    const opened = (node: Bytes): Promise<OnnxModel> => open(one({ graph: [field(1, node)] }));
    test.each<readonly [string, Bytes]>([
      ["floats of three bytes", constant("value_floats", field(7, new Uint8Array(3)), numberField(20, 6))],
      ["floats as a varint", constant("value_floats", numberField(7, 1))],
      ["floats of which one piece is cut", constant("value_floats", field(7, floats(1)), field(7, new Uint8Array(2)))],
      ["a float as a varint", constant("value_float", numberField(2, 1))],
      ["an integer as a float", constant("value_int", concatBytes([varint(3 * 8 + 5), floats(1)]))],
      ["integers as a float", constant("value_ints", concatBytes([varint(8 * 8 + 5), floats(1)]))],
      ["integers that do not end", constant("value_ints", field(8, Uint8Array.of(0x80)))],
      ["a tensor that is missing", constant("value", numberField(20, 4))],
      ["a sparse tensor that is missing", constant("sparse_value", numberField(20, 11))],
      ["a text that is missing", constant("value_string", numberField(20, 3))],
      ["no attribute", concatBytes([field(2, "c"), field(4, "Constant")])],
    ])("with %s is listed as unread", async (_, node) => {
      const model = await opened(node);
      expect(model.tensors.map(({ name }) => name)).toEqual(["w"]);
      expect(model.unread).toMatchObject([{ name: "c" }]);
      expect(model.warnings).toMatchObject([{ code: "unsupported/onnx.unread", name: "c" }]);
    });
    test.each<readonly [string, string, readonly Bytes[], readonly unknown[]]>([
      ["value_float", "zero", [numberField(20, 1)], ["F32", [], 0]],
      ["value_int", "zero", [], ["I64", [], 0]],
      ["value_floats", "an empty list", [numberField(20, 6)], ["F32", [0]]],
      ["value_ints", "an empty list", [], ["I64", [0]]],
    ])("without its %s is %s", async (name, _, fields, expected) => {
      const model = await opened(constant(name, ...fields));
      const tensor = model.tensor("c");
      expect([tensor.dtype, tensor.shape, ...(await tensor.toFloat32())]).toEqual(expected);
      expect(model.unread).toEqual([]);
    });
    test("of a function may have the value of the node that calls it", async () => {
      const model = await opened(constant("value_float", field(21, "alpha"), numberField(20, 1)));
      expect(model.tensors.map(({ name }) => name)).toEqual(["w"]);
      expect(model.unread).toEqual([]);
    });
  });
  test("lists a damaged list of floats of any operator", async () => {
    const attribute = (name: string, ...fields: readonly Bytes[]): Bytes =>
      field(5, concatBytes([field(1, name), ...fields]));
    const classifier = concatBytes([
      field(2, "scores"),
      field(4, "LinearClassifier"),
      attribute("coefficients", field(7, new Uint8Array(5))),
      attribute("axis", concatBytes([varint(3 * 8 + 5), floats(1)])), // a setting of the operator
      attribute("value", numberField(20, 4)),
    ]);
    const model = await open(one({ graph: [field(1, classifier)] }));
    expect(model.unread).toMatchObject([{ name: "scores.coefficients" }, { name: "scores.value" }]);
  });
});
