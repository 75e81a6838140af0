import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, test } from "vitest";
import {
  buildOnnx,
  field,
  numberField,
  type OnnxFile,
  type OnnxTensor,
  tensorProto,
  varint,
} from "../../../test/builders/onnx.ts";
import { inputResolver } from "../../../test/fuzz/fuzz-input.ts";
import { countingSource } from "../../../test/support/counting-source.ts";
import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { isTareError, type TareError } from "../../base/errors.ts";
import type { LimitOverrides } from "../../base/limits.ts";
import { memorySource } from "../../bytes/memory.ts";
import { verify } from "../../operations/verify.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { onnx } from "./index.ts";
import type { OnnxModel } from "./model.ts";
import { openOnnx, reader } from "./read.ts";

const engine = portableEngine();
const floats = (...values: readonly number[]): Bytes => new Uint8Array(Float32Array.from(values).buffer);

function open(
  bytes: Bytes,
  files: Readonly<Record<string, Bytes>> = {},
  limits: LimitOverrides = {},
): Promise<OnnxModel> {
  const resolver = inputResolver({ primary: "m.onnx", files: new Map(Object.entries(files)) });
  return openOnnx(memorySource(bytes, "m.onnx"), { engine, limits, resolver });
}

async function refusal(
  bytes: Bytes,
  files: Readonly<Record<string, Bytes>> = {},
  limits: LimitOverrides = {},
): Promise<TareError> {
  const error: unknown = await open(bytes, files, limits).catch((thrown: unknown) => thrown);
  if (!isTareError(error)) throw new Error("It was not refused");
  expect(error.at.offset).toEqual(expect.any(Number));
  return error;
}

const one = (tensor: Partial<OnnxTensor>, more: OnnxFile = {}): Bytes =>
  buildOnnx({ ...more, tensors: [{ name: "w", dims: [2], raw: floats(1, 2), ...tensor }] });

describe("openOnnx()", () => {
  test("reads lists that are packed, and cut into pieces", async () => {
    const packed = (number: number, ...values: readonly number[]): Bytes =>
      field(number, concatBytes(values.map(varint)));
    const inPieces = tensorProto({
      name: "p",
      type: 6,
      dims: [],
      extra: [packed(1, 2, 2), packed(5, 1, 300), packed(5, 3), numberField(5, 4)],
    });
    const loose = tensorProto({
      name: "f",
      dims: [2],
      extra: [concatBytes([varint(4 * 8 + 5), floats(1.5)]), concatBytes([varint(4 * 8 + 5), floats(2.5)])],
    });
    const model = await open(buildOnnx({ graph: [field(5, inPieces), field(5, loose)] }));
    expect(model.tensor("p").shape).toEqual([2, 2]);
    expect([...(await model.tensor("p").toFloat32())]).toEqual([1, 300, 3, 4]);
    expect([...(await model.tensor("f").toFloat32())]).toEqual([1.5, 2.5]);
  });
  test("never reads the data, in a file of any length", async () => {
    const raw = new Uint8Array(4 << 20);
    const tensors = Array.from({ length: 4 }, (_, i) => ({ name: `t${i}`, dims: [1 << 20], raw }));
    const source = countingSource(memorySource(buildOnnx({ tensors }), "m.onnx"));
    const model = await openOnnx(source, { engine, limits: {} });
    expect(model.tensors.map(({ byteLength }) => byteLength)).toEqual([4 << 20, 4 << 20, 4 << 20, 4 << 20]);
    expect(source.calls.reduce((sum, call) => sum + call.byteLength, 0)).toBeLessThan(64 << 10);
  });
  test("finds external data by offset and length, and by the shape if no length is given", async () => {
    const files = { "m.data": floats(0, 1, 2, 3) };
    const tensors = [
      { name: "a", dims: [2], external: { location: "m.data", offset: "4", length: "8" } },
      { name: "b", dims: [1], external: { location: "./m.data" } },
    ];
    const model = await open(buildOnnx({ tensors }), files);
    expect([...(await model.tensor("a").toFloat32())]).toEqual([1, 2]);
    expect([...(await model.tensor("b").toFloat32())]).toEqual([0]);
    expect(model.parts.map(({ label }) => label)).toEqual(["m.onnx", "m.data"]);
    await model.close();
  });
  test("lists what it does not read", async () => {
    const model = await open(
      one(
        {},
        {
          graph: [
            field(15, new Uint8Array(0)),
            field(5, tensorProto({ name: "s", type: 8, dims: [1], extra: [field(6, "x")] })),
          ],
        },
      ),
    );
    expect(model.unread.map(({ name }) => name)).toEqual(["s", "sparse_initializer"]);
  });
  test("warns about a duplicate key and a model without operators, and continues", async () => {
    const twice = await open(
      one(
        {},
        {
          props: [
            ["a", "1"],
            ["a", "2"],
          ],
        },
      ),
    );
    expect(twice.metadata.text("a")).toBe("1");
    expect(twice.unread).toEqual([{ name: "a", reason: expect.stringContaining("twice") }]);
    const [repeated, again] = [["a", "1"] as const, ["a", "1"] as const];
    expect((await open(one({}, { props: [repeated, again] }))).unread).toEqual([]);
    const imports = [11, 13].map((version) => field(8, concatBytes([field(1, "x"), numberField(2, version)])));
    expect((await open(one({}, { model: imports }))).unread).toMatchObject([{ name: "onnx.opset.x" }]);
    expect(twice.warnings).toMatchObject([{ severity: "warning", code: "format/onnx.duplicate-key" }]);
    const bare = await open(concatBytes([numberField(1, 8), field(7, field(2, "g"))]));
    expect(bare.warnings).toMatchObject([{ code: "format/onnx.no-opset" }]);
  });
  test("counts values that are stored one by one only when they are read, as verify does", async () => {
    const extra = [field(5, concatBytes([varint(1), varint(300)]))]; // three bytes, two values
    const bytes = buildOnnx({ tensors: [{ name: "w", type: 6, dims: [3], extra }] });
    const opened = { container: await open(bytes), format: onnx, reader, notes: [] };
    const report = await verify(opened, { level: "full", engine });
    expect(report.findings).toMatchObject([{ severity: "error", code: "format/onnx.data-length", name: "w" }]);
  });
  test("enters graphs inside nodes, but only to a limited depth", async () => {
    let inner: Bytes = field(2, "deep");
    for (let i = 0; i < 2000; i++) inner = field(1, field(5, field(6, inner)));
    const model = await open(one({}, { graph: [inner] }));
    expect(model.facts).toContainEqual(["graph", "1 nodes"]);
    expect(model.unread).toMatchObject([{ name: "graphs inside nodes" }]);
  });
});

describe("openOnnx() refuses, with the place,", () => {
  test.each<readonly [string, Bytes, string]>([
    ["a tensor without a name", one({ name: "" }), "format/onnx.unnamed"],
    [
      "two of one name",
      buildOnnx({
        tensors: [
          { name: "w", dims: [0] },
          { name: "w", dims: [0] },
        ],
      }),
      "format/onnx.duplicate-name",
    ],
    ["raw data that is too short", one({ dims: [3] }), "format/onnx.data-length"],
    ["raw data that is too long", one({ dims: [1] }), "format/onnx.data-length"],
    ["a shape without values", buildOnnx({ tensors: [{ name: "w", dims: [2] }] }), "format/onnx.no-data"],
    [
      "floats as varints",
      buildOnnx({ tensors: [{ name: "w", dims: [1], extra: [1, 2, 3, 4].map((value) => numberField(4, value)) }] }),
      "format/onnx.wire-type",
    ],
    [
      "a float that is cut into two pieces",
      buildOnnx({
        tensors: [{ name: "w", dims: [1], extra: [field(4, new Uint8Array(1)), field(4, new Uint8Array(3))] }],
      }),
      "format/onnx.data-length",
    ],
    [
      "doubles as floats",
      buildOnnx({
        tensors: [
          { name: "w", type: 11, dims: [1], extra: [1, 2].map((value) => concatBytes([varint(85), floats(value)])) },
        ],
      }),
      "format/onnx.wire-type",
    ],
    [
      "integers as floats",
      buildOnnx({ tensors: [{ name: "w", type: 6, dims: [1], extra: [concatBytes([varint(45), floats(0)])] }] }),
      "format/onnx.wire-type",
    ],
    ["raw data twice", one({ extra: [field(9, floats(1, 2))] }), "format/onnx.duplicate-data"],
    ["raw data and a list", one({ extra: [field(4, floats(1, 2))] }), "format/onnx.duplicate-data"],
    [
      "two lists",
      buildOnnx({ tensors: [{ name: "w", dims: [1], extra: [field(4, floats(1)), field(5, varint(1))] }] }),
      "format/onnx.duplicate-data",
    ],
    [
      "a list that is not for the type",
      buildOnnx({ tensors: [{ name: "w", type: 7, dims: [1], extra: [field(5, varint(1))] }] }),
      "format/onnx.data-field",
    ],
    [
      "a shape that a list cannot fill",
      buildOnnx({ tensors: [{ name: "w", type: 7, dims: [2 ** 40], extra: [field(7, varint(1))] }] }),
      "format/onnx.data-length",
    ],
    ["a negative dimension", one({ dims: [-1] }), "format/onnx.number"],
    ["a dimension beyond 2^53", one({ dims: [2n ** 60n] }), "format/onnx.number"],
    ["dimensions whose product wraps", one({ dims: [2 ** 32, 2 ** 32] }), "format/overflow"],
    ["a zero that would make such a product small", one({ dims: [2 ** 32, 2 ** 32, 0] }), "format/overflow"],
    ["a second graph", one({}, { model: [field(7, field(2, "h"))] }), "format/onnx.no-graph"],
    ["no graph", concatBytes([numberField(1, 8), field(2, "test")]), "format/onnx.no-graph"],
    ["a name that is not UTF-8", one({}, { graph: [field(2, Uint8Array.of(0xff))] }), "format/onnx.utf8"],
    ["a field longer than its message", one({}, { graph: [field(1, new Uint8Array(1), 100)] }), "format/onnx.length"],
    ["a length beyond 2^53", one({}, { graph: [field(1, new Uint8Array(1), 2n ** 63n)] }), "format/onnx.length"],
    ["a number that does not end", one({}, { model: [Uint8Array.of(0x28, 0x80, 0x80)] }), "format/onnx.varint"],
    [
      "a number of eleven bytes",
      one({}, { model: [Uint8Array.of(0x28, ...new Uint8Array(10).fill(0x80), 1)] }),
      "format/onnx.varint",
    ],
    ["field 0", one({}, { model: [Uint8Array.of(0x02, 0x00)] }), "format/onnx.tag"],
    ["groups, which nest without a length", one({}, { model: [new Uint8Array(1000).fill(0x5b)] }), "format/onnx.tag"],
    ["a graph that is a number", concatBytes([numberField(1, 8), numberField(7, 1)]), "format/onnx.wire-type"],
  ])("%s", async (_, bytes, code) => {
    expect((await refusal(bytes)).code).toBe(code);
  });
  test.each<readonly [string, Readonly<Record<string, string>>, string]>([
    ["no location", { offset: "0" }, "format/onnx.external"],
    ["an offset that is no number", { location: "d", offset: "0x10" }, "format/onnx.external"],
    ["a negative offset", { location: "d", offset: "-4" }, "format/onnx.external"],
    ["an offset beyond the end", { location: "d", offset: "12" }, "format/onnx.external"],
    ["a length beyond the end", { location: "d", offset: "4", length: "8" }, "format/onnx.external"],
    ["another length than the shape's", { location: "d", length: "4" }, "format/onnx.data-length"],
    ["a file that is not there", { location: "e" }, "source/not-found"],
    ["a path that leads out", { location: "../d" }, "source/resolver.escape"],
    ["a path that leads out further on", { location: "./a/../../d" }, "source/resolver.escape"],
    ["an absolute path", { location: "/etc/passwd" }, "source/resolver.escape"],
    ["a URL", { location: "http://169.254.169.254/" }, "source/resolver.escape"],
    ["a drive", { location: "C:\\d" }, "source/resolver.escape"],
  ])("external data with %s", async (_, external, code) => {
    const bytes = buildOnnx({ tensors: [{ name: "w", dims: [2], external }] });
    const error = await refusal(bytes, { d: floats(1, 2) });
    expect(error.code).toBe(code);
    expect(error.at).toMatchObject({ source: "m.onnx", path: "graph.initializer[0]" });
  });
  test("external data if no file can be reached", async () => {
    const bytes = buildOnnx({ tensors: [{ name: "w", dims: [2], external: { location: "d" } }] });
    await expect(openOnnx(memorySource(bytes), { engine, limits: {} })).rejects.toMatchObject({
      code: "usage/onnx.no-siblings",
    });
  });
});

describe("limits of ONNX hold at limit and limit + 1", () => {
  const tensors = [
    { name: "a", dims: [1, 1], raw: floats(1) },
    { name: "b", type: 6, dims: [2], extra: [numberField(5, 1), numberField(5, 2)] },
    { name: "c", dims: [1], external: { location: "c" } },
    { name: "d", dims: [1], external: { location: "d" } },
  ];
  const nodes = [1, 2].map((i) => ({ op: "Add", inputs: ["a"], outputs: [`o${i}`] }));
  const bytes = buildOnnx({ tensors, nodes });
  const files = { c: floats(1), d: floats(2) };
  test.each([
    ["nodes", 2, "limit/onnx.nodes"],
    ["initializers", 4, "limit/onnx.initializers"],
    ["textBytes", 8, "limit/onnx.text-bytes"], // "location"
    ["dimensions", 2, "limit/onnx.dimensions"],
    ["dataPieces", 2, "limit/onnx.data-pieces"],
    ["typedDataBytes", 2, "limit/onnx.typed-data-bytes"],
    ["externalFiles", 2, "limit/onnx.external-files"],
    ["controlBytes", bytes.byteLength, "limit/onnx.control-bytes"],
  ])("%s", async (name, value, code) => {
    await expect(open(bytes, files, { onnx: { [name]: value } })).resolves.toMatchObject({ format: "onnx" });
    expect((await refusal(bytes, files, { onnx: { [name]: value - 1 } })).code).toBe(code);
  });
});

test("a tensor of an ONNX file costs little more than its name, however many there are", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const held = (): number => {
    collect();
    return process.memoryUsage().heapUsed;
  };
  const COUNT = 20_000;
  const tensors = Array.from({ length: COUNT }, (_, i) => ({ name: `t${i}`, dims: [0] }));
  const bytes = buildOnnx({ tensors });
  const before = held();
  const model = await open(bytes);
  // About 190 bytes: an object of eight fields, a shape, a name. The message as it was read takes twice that.
  expect((held() - before) / COUNT).toBeLessThan(300);
  expect(model.tensors).toHaveLength(COUNT);
});
