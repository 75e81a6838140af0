import type { Bytes } from "../../src/base/bytes.ts";
import { memorySource } from "../../src/bytes/memory.ts";
import { DTYPES, dtypeFacts, type KnownDType } from "../../src/model/dtype.ts";
import type { WriteOptions } from "../../src/model/format.ts";
import { arrayValue, Metadata, stringValue } from "../../src/model/metadata.ts";
import { Tensor } from "../../src/model/tensor.ts";

/** A reproducible stream of numbers 0 … 1 (mulberry32). */
export function randomNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Names beyond ASCII and beyond 16 bits, and with characters that JSON and string tables escape. */
const ENDINGS = ["weight", "é", "\u{1f600}", 'a"b\\c', "nul\0", ""] as const;

/** Tensors of all types, with metadata that JSON can and cannot say. */
export interface RandomModel {
  readonly tensors: readonly Tensor[];
  readonly metadata: Metadata;
}

/** A file we wrote, and what is in it. */
export interface WrittenModel {
  readonly path: string;
  readonly align: number;
  readonly model: RandomModel;
}

export function randomModel(random: () => number): RandomModel {
  const below = (limit: number): number => Math.floor(random() * limit);
  const types = Object.keys(DTYPES) as KnownDType[];
  const tensors = Array.from({ length: 1 + below(12) }, (_, i) => {
    const dtype = types[below(types.length)] as KnownDType;
    return randomTensor(`blk.${i}.${ENDINGS[below(ENDINGS.length)]}`, dtype, below(30), random);
  });
  const metadata = new Metadata([
    { key: "general.name", value: stringValue(`model ${below(1000)} ü`) },
    { key: "general.architecture", value: stringValue("llama") },
    { key: "count", value: { type: "u32", value: below(2 ** 32) } },
    { key: "scale", value: { type: "f32", value: Math.fround(random()) } },
    { key: "seed", value: { type: "u64", value: 2n ** 63n + BigInt(below(2 ** 32)) } },
    { key: "sizes", value: arrayValue([{ type: "i16", value: -below(100) }], "i16") },
  ]);
  return { tensors, metadata };
}

function randomTensor(name: string, dtype: KnownDType, rows: number, random: () => number): Tensor {
  const facts = dtypeFacts(dtype);
  const row = facts.layout === "block" ? facts.blockElements : 4;
  let byteLength = rows * row;
  if (facts.layout === "block") byteLength = rows * facts.blockBytes;
  else if (facts.layout === "plain") byteLength = (rows * row * facts.bits) / 8;
  else byteLength = facts.byteLength?.(rows * row) ?? byteLength;
  const bytes: Bytes = Uint8Array.from({ length: byteLength }, () => Math.floor(random() * 256));
  const source = memorySource(bytes, name);
  return new Tensor({ name, dtype, shape: [rows, row], byteLength, offset: 0 }, { source: () => source });
}

/** Every combination of a writer's options. */
export function* optionSets(): Generator<Omit<WriteOptions, "name">> {
  for (const align of [undefined, 1, 16, 4096]) {
    for (const maxShardBytes of [undefined, 1, 1000]) {
      for (const pageBytes of [undefined, 16, 100, 4 << 20]) {
        for (const tensors of [undefined, "tensors"] as const) {
          for (const control of [undefined, "control"] as const) {
            yield { align, maxShardBytes, hashes: { pageBytes, tensors, control } };
          }
        }
      }
    }
  }
}
