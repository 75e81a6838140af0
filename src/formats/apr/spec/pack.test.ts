import { describe, expect, it } from "vitest";
import { type Bytes, concatBytes, equalBytes } from "../../../base/bytes.ts";
import { memorySource } from "../../../bytes/memory.ts";
import { Tensor } from "../../../model/tensor.ts";
import { portableEngine } from "../../../primitives/portable.ts";
import { BlockSource, BlockTable } from "./blocks.ts";
import { type Packed, packTensor } from "./pack.ts";

const engine = portableEngine();
const codec = await engine.lz4();

function noise(length: number): Bytes {
  const words = new Uint32Array(Math.ceil(length / 4));
  let state = 7;
  for (let i = 0; i < words.length; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    words[i] = state;
  }
  return new Uint8Array(words.buffer, 0, length);
}

async function pack(raw: Bytes): Promise<Packed & { readonly bytes: Bytes; readonly progress: number }> {
  const facts = { name: "t", dtype: "U8", shape: [raw.byteLength], byteLength: raw.byteLength, offset: 0 } as const;
  const tensor = new Tensor(facts, { source: () => memorySource(raw) });
  const pieces: Bytes[] = [];
  let progress = 0;
  const packed = await packTensor(tensor, async (bytes) => void pieces.push(bytes.slice()), {
    codec,
    onProgress: (byteLength) => {
      progress += byteLength;
    },
  });
  return { ...packed, bytes: concatBytes(pieces), progress };
}

async function unpack(stored: Bytes, byteLength: number): Promise<Bytes> {
  const table = new BlockTable();
  return new BlockSource({ name: "t", stored: memorySource(stored), offset: 0, byteLength, engine, table }).read(
    0,
    byteLength,
  );
}

describe("packTensor", () => {
  it.each([
    ["nothing", new Uint8Array(0), "raw"],
    ["a byte", Uint8Array.of(1), "raw"],
    ["noise", noise(200_000), "raw"],
    ["zeros", new Uint8Array(200_000), "lz4"],
    ["zeros behind noise, seen only at the end", concatBytes([noise(2_000_000), new Uint8Array(20_000)]), "lz4"],
    ["too few zeros behind noise", concatBytes([noise(3_000_000), new Uint8Array(5_000)]), "raw"],
  ] as const)("stores %s", async (_, raw, storage) => {
    const packed = await pack(raw);
    expect(packed.storage).toBe(storage);
    expect(packed.size).toBe(packed.bytes.byteLength);
    expect(packed.progress).toBe(raw.byteLength);
    expect(packed.size <= raw.byteLength).toBe(true);
    const back = storage === "raw" ? packed.bytes : await unpack(packed.bytes, raw.byteLength);
    expect(equalBytes(back, raw)).toBe(true);
  });

  it("packs again the blocks after those it holds", async () => {
    // More noise than is held while the verdict is open, then enough zeros to make up for it.
    const raw = concatBytes([noise(36 << 20), new Uint8Array(1 << 20)]);
    const packed = await pack(raw);
    expect(packed.storage).toBe("lz4");
    expect(packed.size).toBeLessThan(raw.byteLength);
    expect(equalBytes(await unpack(packed.bytes, raw.byteLength), raw)).toBe(true);
  });
});
