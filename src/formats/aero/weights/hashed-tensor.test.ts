import { describe, expect, test } from "vitest";
import { drain, expectBytes, patternBytes, sourceContract } from "../../../../test/contracts/source-contract.ts";
import { type Bytes, concatBytes } from "../../../base/bytes.ts";
import { encodeHex } from "../../../base/text.ts";
import { withMeter } from "../../../bytes/layers/base.ts";
import { memorySource } from "../../../bytes/memory.ts";
import type { Spool } from "../../../bytes/sink.ts";
import type { Source } from "../../../bytes/source.ts";
import { Tensor } from "../../../model/tensor.ts";
import { portableEngine } from "../../../primitives/portable.ts";
import { HashedTensorReader } from "./hashed-tensor.ts";

const engine = portableEngine();
const BYTES = patternBytes(100_000);

interface Made {
  readonly source: Source;
  readonly meter: { reads: number; bytes: number };
  readonly copies: Source[];
}

/** A remote tensor (without a descriptor); up to `maxBytes` of it may be held in memory. */
async function make(bytes: Bytes, maxBytes: number, damage?: Bytes): Promise<Made> {
  const meter = { reads: 0, bytes: 0 };
  const copies: Source[] = [];
  const spool: Spool = async (pieces) => {
    const kept: Bytes[] = [];
    for await (const piece of pieces) kept.push(piece.slice());
    const copy = memorySource(concatBytes(kept), "copy");
    copies.push(copy);
    return copy;
  };
  const reader = new HashedTensorReader({
    name: "w",
    stored: withMeter(memorySource(damage ?? bytes, "https://host/m.aero"), meter),
    offset: 0,
    hash: encodeHex(await engine.digest("blake3", bytes)),
    engine,
    maxBytes,
    spool,
  });
  const { byteLength } = bytes;
  const facts = {
    name: "w",
    dtype: "U8",
    shape: [byteLength],
    byteLength,
    offset: 0,
    storedByteLength: byteLength,
  } as const;
  return { source: reader.source(new Tensor(facts, reader)), meter, copies };
}

sourceContract("a hashed remote tensor, spooled", async (bytes) => ({ source: (await make(bytes, 1000)).source }), {
  closing: "shared",
});

describe("HashedTensorReader of a remote tensor that is too long for memory", () => {
  test("is downloaded once, checked, and then read from the copy", async () => {
    const { source, meter, copies } = await make(BYTES, 1000);
    const reads = await Promise.all([source.read(50_000, 100), source.read(0, 10)]);
    expectBytes(reads[0] as Bytes, BYTES.subarray(50_000, 50_100));
    expectBytes(await drain(source, 99_000), BYTES.subarray(99_000));
    expect(copies).toHaveLength(1);
    expect(meter).toEqual({ reads: 1, bytes: 100_000 });
  });
  test("hands out nothing of a damaged one, and frees the copy", async () => {
    const damage = BYTES.slice();
    damage[7] = (damage[7] ?? 0) ^ 1;
    const { source, copies } = await make(BYTES, 1000, damage);
    await expect(source.read(50_000, 100)).rejects.toMatchObject({ code: "integrity/aero.tensor-hash" });
    await expect(copies[0]?.read(0, 1)).rejects.toMatchObject({ code: "source/closed" });
  });
  test("is not spooled if it fits", async () => {
    const { source, copies } = await make(BYTES, BYTES.byteLength);
    expect(await source.read(0, 10)).toHaveLength(10);
    expect(copies).toEqual([]);
  });
});
