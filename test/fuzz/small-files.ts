import { type Bytes, concatBytes } from "../../src/base/bytes.ts";
import { buildEmbd, buildStream, f32, SPECIAL_TOKENS } from "../builders/embd.ts";
import { array, buildGguf, byteTensor, text, u8, u16, u32, u64 } from "../builders/gguf.ts";
import { buildSafetensors, patternBytes, rawSafetensors } from "../builders/safetensors.ts";
import type { FuzzInput } from "./fuzz-input.ts";

/** Valid files at the edges of what a format allows, which foreign writers rarely make. Empty for formats without any. */
export function smallFiles(id: string): FuzzInput[] {
  const make = GENERATORS.get(id);
  return make === undefined ? [] : make();
}

function lone(primary: string, bytes: Bytes): FuzzInput {
  return { primary, files: new Map([[primary, bytes]]) };
}

const GENERATORS: ReadonlyMap<string, () => FuzzInput[]> = new Map([
  ["embd", embdFiles],
  ["gguf", ggufFiles],
  ["safetensors", safetensorsFiles],
]);

/** An origin with every kind of carried value, so that its text is mutated as well. */
const ORIGIN = JSON.stringify({
  chain: [
    { format: "safetensors", facts: { order: [1, 0], metadata: "empty" } },
    { format: "gguf", facts: { version: 2, offsets: [0, 32], tail: [40, 3], originIndex: 0 } },
  ],
  entries: [
    ["a"],
    ["n", "u32"],
    ["x", "array", "json", { array: [{ u64: "18446744073709551615" }, { map: [["k", { bytes: "AAE=" }]] }] }],
    ["g", "u8", "gguf", "AAAAAAc="],
  ],
  tensors: [["t", "F4", [4, 4]]],
  order: [1, 0],
});

function ggufFiles(): FuzzInput[] {
  const deep = (levels: number): Bytes => (levels === 0 ? array(4, [u32(7)]) : array(9, [deep(levels - 1)]));
  const tensors = [byteTensor("t", 8, 0), byteTensor("u", 8, 32)];
  const kvs = [
    { key: "a", type: 8, value: text("text") },
    { key: "n", type: 8, value: text("5") },
    { key: "deep", type: 9, value: deep(6) },
    { key: "none", type: 9, value: array(8, []) },
    { key: "tare.origin", type: 8, value: text(ORIGIN) },
  ];
  const data = concatBytes([patternBytes(8), new Uint8Array(24), patternBytes(8, 2), new Uint8Array(24)]);
  const alignment = [{ key: "general.alignment", type: 4, value: u32(1) }];
  const split = [
    { key: "split.no", type: 2, value: u16(0) },
    { key: "split.count", type: 2, value: u16(2) },
    { key: "flag", type: 7, value: u8(2) },
    { key: "wide", type: 10, value: u64(2n ** 64n - 1n) },
  ];
  return [
    lone("origin.gguf", buildGguf({ kvs, tensors, data })),
    lone("nothing.gguf", buildGguf()),
    lone(
      "packed.gguf",
      buildGguf({ kvs: alignment, tensors: [byteTensor("", 3, 0)], alignment: 1, data: patternBytes(3) }),
    ),
    lone("lone.gguf", buildGguf({ kvs: split, tensors: tensors.slice(0, 1), data: data.slice(0, 32) })),
  ];
}

function embdFiles(): FuzzInput[] {
  const tensors = [
    { name: "t", dtype: 8, shape: [8], bytes: patternBytes(8) },
    { name: "u", dtype: 0, shape: [2, 1], bytes: f32(1, 2) },
    { name: "same", dtype: 8, shape: [8], bytes: new Uint8Array(0), dataOffset: 0 },
  ];
  const tokens = [...SPECIAL_TOKENS, "a", Uint8Array.of(0xff), ""];
  const metadata = [
    ["a", "text"],
    ["tare.origin", ORIGIN.slice(0, 200)],
    ["tare.origin.1", ORIGIN.slice(200)],
  ] as const;
  const square = { name: "encoder.layer.0.attention.self.query.weight", shape: [2, 2], values: [1, 2, 3, 4] };
  return [
    lone("origin.weights", buildEmbd({ tensors, metadata, tokens })),
    lone("packed.weights", buildEmbd({ tensors: tensors.slice(0, 2), flags: 0, metadata: [["", ""]] })),
    lone("square.weights", buildStream([square], ["x"])),
  ];
}

function safetensorsFiles(): FuzzInput[] {
  const tensors = [
    { name: "t", dtype: "U8", shape: [8], bytes: patternBytes(8) },
    { name: "u", dtype: "F4", shape: [4, 4], bytes: patternBytes(8, 2) },
    { name: "empty", dtype: "F32", shape: [0, 9], bytes: new Uint8Array(0) },
  ];
  const metadata = { a: "text", n: "5", "tare.origin": ORIGIN };
  const swapped = `{"t":{"shape":[],"note":[[1],{"x":null}],"data_offsets":[4,8],"dtype":"F32"},"\\u0061":["I8",[4],[0,4]]}`;
  return [
    lone("origin.safetensors", buildSafetensors(tensors, { metadata })),
    lone("indented.safetensors", buildSafetensors(tensors.slice(0, 2), { spacing: "indented" })),
    lone("swapped.safetensors", rawSafetensors(swapped, patternBytes(8))),
    lone("null.safetensors", rawSafetensors('{"__metadata__":null}')),
  ];
}
