import { decode } from "@msgpack/msgpack";
import { expect, test } from "vitest";
import { encodeHex } from "../../../base/text.ts";
import { stringValue } from "../../../model/metadata.ts";
import { encodeControlHash, encodePageHashes, measurePageHashes } from "./digests.ts";
import { renderJsonObject } from "./metadata.ts";
import { encodeTensorIndex, measureTensorIndex, type TensorRow } from "./tidx.ts";

const digestOf = (value: number): Uint8Array<ArrayBuffer> => new Uint8Array(32).fill(value);

const rows: readonly TensorRow[] = [
  { name: "a", dtype: 1, shape: [], shardId: 0, dataOff: 0, dataLen: 4 },
  {
    name: "é".repeat(300),
    dtype: 0x8000,
    shape: [2 ** 33, 0],
    shardId: 70_000,
    dataOff: 2 ** 40,
    dataLen: 0,
    quantId: 0,
  },
  {
    name: "c",
    dtype: 0x8000,
    shape: [1],
    shardId: 0,
    dataOff: 4,
    dataLen: 300,
    quantId: 200,
    quantParams: { ggml_type: 2, nested: [null, true, -1, 0.5, { deep: "x" }] },
  },
];

test("measureTensorIndex() knows the length before there are digests", () => {
  const hashes = rows.map((_, i) => digestOf(i));
  expect(encodeTensorIndex(rows).byteLength).toBe(measureTensorIndex(rows, "plain"));
  expect(encodeTensorIndex(rows, hashes).byteLength).toBe(measureTensorIndex(rows, "hashed"));
});

test("encodeTensorIndex() writes what another decoder reads, the digest last", () => {
  const { tensors } = decode(
    encodeTensorIndex(
      rows,
      rows.map(() => digestOf(0xab)),
    ),
  ) as { tensors: object[] };
  expect(tensors[2]).toEqual({
    name: "c",
    dtype: 32768,
    shape: [1],
    shard_id: 0,
    data_off: 4,
    data_len: 300,
    flags: 0,
    quant_id: 200,
    quant_params: { ggml_type: 2, nested: [null, true, -1, 0.5, { deep: "x" }] },
    hash_b3: "ab".repeat(32),
  });
  expect(tensors.map((tensor) => Object.keys(tensor).at(-1))).toEqual(["hash_b3", "hash_b3", "hash_b3"]);
});

/** AIP-0002's size: 31 and the name, the width of the page size, the width of the count, and 34 a page. */
test.each([
  [0, 64, 31 + 4 + 1 + 1],
  [15, 100, 31 + 4 + 1 + 1 + 34 * 15],
  [16, 4 << 20, 31 + 4 + 5 + 3 + 34 * 16],
  [65_536, 300, 31 + 4 + 3 + 5 + 34 * 65_536],
])("measurePageHashes() of %i pages of %i bytes", (count, pageBytes, byteLength) => {
  const digests = Array.from({ length: count }, (_, i) => digestOf(i));
  expect(measurePageHashes("name", pageBytes, count)).toBe(byteLength);
  expect(encodePageHashes("name", pageBytes, digests).byteLength).toBe(byteLength);
});

test("encodeControlHash() pads a MessagePack value with zeros to 256 bytes", () => {
  const payload = encodeControlHash(1072, digestOf(7));
  expect(payload.byteLength).toBe(256);
  expect(decode(payload.subarray(0, 79))).toEqual({
    algo: "blake3-256",
    covered_ranges: [[0, 1072]],
    digest: digestOf(7),
  });
  expect(encodeHex(payload.subarray(79))).toBe("00".repeat(256 - 79));
});

test("renderJsonObject() sorts by code point, escapes to ASCII, and keeps floats floats", () => {
  const entries = [
    { key: "\u{1f600}", value: stringValue("\u{1f600}\n\u007f") },
    { key: "\uffee", value: { type: "f32", value: -0 } as const },
    { key: "a", value: { type: "f64", value: 1 } as const },
    { key: "B", value: { type: "u64", value: 2n ** 64n - 1n } as const },
  ];
  expect(renderJsonObject(entries)).toBe(
    '{"B":18446744073709551615,"a":1.0,"\\uffee":-0.0,"\\ud83d\\ude00":"\\ud83d\\ude00\\n\u007f"}',
  );
});
