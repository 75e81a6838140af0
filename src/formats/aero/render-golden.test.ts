import { expect, test } from "vitest";
import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { encodeHex } from "../../base/hex.ts";
import { alignUp } from "../../base/integers.ts";
import { encodeUtf8 } from "../../base/text.ts";
import { stringValue } from "../../model/metadata.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { type ChunkRecord, encodeControl, layOutControl } from "./render-control.ts";
import { renderJsonObject } from "./render-mjsn.ts";
import { encodeManifest } from "./render-mmsg.ts";
import { encodeTensorIndex } from "./render-tidx.ts";

/** The reference's `make-test-vector`, as docs/formats/aero.md tells it: lengths and BLAKE3-256 of the contents. */
const CONTENTS = [
  ["meta.json", 66, "775db4bdb5782d55cdb21fc0896ed3f4086aea4ef25d3fa1f3458635ad0b8e50"],
  ["manifest", 309, "4920e3dac5c241ebf2092c99ee28f3c40f0e0dddfc8ab2bbd6e2905929415ac2"],
  ["tensors", 153, "bd0628aba0ee40610daddc311eabf99a540d432a74abac080fb685b7e63e7cb7"],
  ["weights.shard0", 32, "fe85337837b698b2f4bfa693d476bbdf3c0331814c715ee2598efb63b279f25b"],
] as const;
/** Its MMSG and TIDX as zstd 1.5.7 compresses them at level 6. */
const STORED_LENGTHS = [66, 221, 116, 32];
const SHA256 = "f186fd956d4aed8f738b5576ad57794d833914b73d5f9a54ed6d7577931d6dcb";

const engine = portableEngine();

function contents(): readonly Bytes[] {
  const json = renderJsonObject([
    { key: "model_name", value: stringValue("test-linear") },
    { key: "description", value: stringValue("AERO v0.1 test vector") },
  ]);
  const manifest = encodeManifest({
    name: "test-linear",
    architecture: "linear",
    chunks: [
      { role: "json", fourcc: "MJSN" },
      { role: "manifest", fourcc: "MMSG" },
      { role: "tensors", fourcc: "TIDX" },
      { role: "weights", fourcc: "WTSH", shardId: 0 },
    ],
    shards: [{ tocIndex: 3, byteLength: 32, tensorCount: 2 }],
  });
  const index = encodeTensorIndex([
    { name: "linear.weight", dtype: 1, shape: [2, 3], shardId: 0, dataOff: 0, dataLen: 24 },
    { name: "linear.bias", dtype: 1, shape: [2], shardId: 0, dataOff: 24, dataLen: 8 },
  ]);
  const weights = new Uint8Array(Float32Array.of(1, 2, 3, 4, 5, 6, 0.5, -0.5).buffer);
  return [encodeUtf8(json), manifest, index, weights];
}

test("the contents of the golden vector are rendered byte for byte", async () => {
  for (const [i, content] of contents().entries()) {
    const [name, byteLength, digest] = CONTENTS[i] as (typeof CONTENTS)[number];
    expect(content.byteLength, name).toBe(byteLength);
    expect(encodeHex(await engine.digest("blake3", content)), name).toBe(digest);
  }
});

test("the golden vector is rendered byte for byte where zstd gives the bytes that the reference had", async () => {
  const flags = [0, 1, 5, 2];
  const names = CONTENTS.map(([name]) => name);
  const pieces: Bytes[] = [];
  const records: ChunkRecord[] = [];
  let position = layOutControl(names).payloadsStart;
  for (const [i, content] of contents().entries()) {
    const compressed = (flags[i] as number) & 1;
    const stored = compressed === 1 ? await engine.zstdCompress(content, { level: 6 }) : content;
    const offset = alignUp(position, 16);
    pieces.push(new Uint8Array(offset - position), stored);
    position = offset + stored.byteLength;
    records.push({
      fourcc: ["MJSN", "MMSG", "TIDX", "WTSH"][i] as string,
      name: names[i] as string,
      flags: flags[i] as number,
      offset,
      length: stored.byteLength,
      ulen: content.byteLength,
      digest: await engine.digest("blake3", content),
    });
  }
  const file = concatBytes([encodeControl(new Uint8Array(16).fill(0x11), records), ...pieces]);
  const sameZstd = records.every(({ length }, i) => length === STORED_LENGTHS[i]);
  const digest = encodeHex(await engine.digest("sha256", file));
  expect(sameZstd ? digest : SHA256).toBe(SHA256);
  for (const [i, { offset, length, ulen }] of records.entries()) {
    if (((flags[i] as number) & 1) === 0) continue;
    const content = await engine.zstdDecompress(file.slice(offset, offset + length), { maxBytes: ulen });
    expect(encodeHex(await engine.digest("blake3", content))).toBe(CONTENTS[i]?.[2]);
  }
  // Whatever zstd made of it: header and TOC header are the reference's.
  expect(encodeHex(file.subarray(0, 112))).toBe(
    "4145524f000001006000000060000000000000005001000000000000b00100000000000030000000000000000000000000000000" +
      "11111111111111111111111111111111" +
      "00".repeat(28) +
      "04000000000000000000000000000000",
  );
});
