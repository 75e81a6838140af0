import { type Bytes, concatBytes } from "../../src/base/bytes.ts";
import { encodeUtf8 } from "../../src/base/text.ts";
import { array, buildGguf, byteTensor, text, u32, u64 } from "./gguf.ts";
import { buildSafetensors, patternBytes, rawSafetensors } from "./safetensors.ts";

/** Files made to break readers. Each says what a naive one would do with it. */

/** 43 bytes that ask for 2^64-1 strings: a reader that makes the array first runs out of memory, or of time. */
export function endlessArray(elementType: number, count: bigint): Bytes {
  return buildGguf({ kvs: [{ key: "x", type: 9, value: array(elementType, [], count) }] });
}

/** A name of 2^40 bytes in a file of sixty: `new Uint8Array(length)` throws a RangeError or takes a terabyte. */
export function endlessName(length: bigint): Bytes {
  return concatBytes([buildGguf({ tensorCount: 1 }), u64(length), new Uint8Array(32)]);
}

/** Counts of tensors or keys that the file has no room for: a reader that allocates by them takes all memory. */
export function endlessCounts(tensorCount: bigint, kvCount: bigint): Bytes {
  return concatBytes([buildGguf({ tensorCount, kvCount }), new Uint8Array(64)]);
}

/** Dimensions whose product is 2^64, which wraps to 0: a naive size check passes for a tensor without bytes. */
export function wrappingShape(dims: readonly bigint[]): Bytes {
  return buildGguf({ tensors: [{ name: "w", dims, type: 0, offset: 0 }], data: new Uint8Array(32) });
}

/** An offset whose sum with the data start wraps to a place inside the header. */
export function wrappingOffset(offset: bigint): Bytes {
  return buildGguf({ tensors: [{ name: "w", dims: [8], type: 24, offset }], data: new Uint8Array(32) });
}

/** `general.alignment` as any type and value: 0 divides by zero, 2^30 makes a gigabyte of padding on rewriting. */
export function aligned(alignment: number, type = 4): Bytes {
  const value = type === 4 ? u32(alignment) : u64(alignment);
  const kvs = [{ key: "general.alignment", type, value }];
  return buildGguf({ kvs, tensors: [byteTensor("w", 8, 0)], data: new Uint8Array(32) });
}

/** Arrays in arrays: a reader that recurses once a level overflows its stack. */
export function nestedArrays(levels: number): Bytes {
  const step = concatBytes([u32(9), u64(1)]);
  const steps = Array.from({ length: levels }, () => step);
  const value = concatBytes([...steps, u32(0), u64(0)]);
  return buildGguf({ kvs: [{ key: "deep", type: 9, value }] });
}

/** JSON nested in a field that readers skip: skipping by recursion overflows the stack. */
export function nestedHeader(levels: number): Bytes {
  const deep = "[".repeat(levels) + "]".repeat(levels);
  return rawSafetensors(`{"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"note":${deep}}}`);
}

/** A SafeTensors file whose `tare.origin` is this text: what an earlier conversion is believed to have left. */
export function withOrigin(origin: string): Bytes {
  const tensors = [{ name: "w", dtype: "U8", shape: [4], bytes: patternBytes(4) }];
  return buildSafetensors(tensors, { metadata: { "tare.origin": origin } });
}

/** Two tensors of one name with different bytes: one reader shows the first, another the second. */
export function twoFacedSafetensors(): Bytes {
  const entry = (begin: number): string => `"w":{"dtype":"U8","shape":[4],"data_offsets":[${begin},${begin + 4}]}`;
  return rawSafetensors(`{${entry(0)},${entry(4)}}`, patternBytes(8));
}

export function twoFacedGguf(): Bytes {
  const tensors = [byteTensor("w", 8, 0), byteTensor("w", 8, 32)];
  return buildGguf({ tensors, data: patternBytes(64) });
}

/** Two tensors over the same bytes: a small file that claims to be a large model. */
export function overlappingGguf(): Bytes {
  return buildGguf({ tensors: [byteTensor("a", 64, 0), byteTensor("b", 64, 32)], data: patternBytes(96) });
}

export function overlappingSafetensors(): Bytes {
  const header = `{"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[8],"data_offsets":[4,12]}}`;
  return rawSafetensors(header, patternBytes(12));
}

/**
 * The first eight bytes are "GGUF" and version 3, which is also a SafeTensors header length of 2^33: two sniffers
 * that look at different bytes see two different models.
 */
export function ggufLikeSafetensors(): Bytes {
  return concatBytes([
    encodeUtf8("GGUF"),
    u32(3),
    encodeUtf8('{"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}x'),
  ]);
}

/** A whole zip behind a whole SafeTensors file: zip readers look from the end and find the other content. */
export function safetensorsWithZip(): Bytes {
  const whole = buildSafetensors([{ name: "w", dtype: "U8", shape: [4], bytes: patternBytes(4) }]);
  const emptyZip = concatBytes([Uint8Array.of(0x50, 0x4b, 0x05, 0x06), new Uint8Array(18)]);
  return concatBytes([whole, emptyZip]);
}

/** `os.system("…")` as protocol 0, 2 and 4 pickles: any unpickler runs it, whatever the file is called. */
export function pickles(command: string): readonly Bytes[] {
  const global = `cos\nsystem\n(S'${command}'\ntR.`;
  return [
    encodeUtf8(global),
    concatBytes([Uint8Array.of(0x80, 2), encodeUtf8(global)]),
    concatBytes([Uint8Array.of(0x80, 4, 0x95), u64(global.length), encodeUtf8(global)]),
  ];
}

/** A shard index that names these files. */
export function shardIndex(names: readonly string[]): Bytes {
  const weightMap = Object.fromEntries(names.map((name, i) => [`t${i}`, name]));
  return encodeUtf8(JSON.stringify({ weight_map: weightMap }));
}

/** The one-tensor shard that the index above expects as its number `i`. */
export function shard(i: number): Bytes {
  return buildSafetensors([{ name: `t${i}`, dtype: "U8", shape: [4], bytes: patternBytes(4, i) }]);
}

/** A GGUF part with one tensor. */
export function ggufPart(no: number, count: number): Bytes {
  const kvs = [
    { key: "split.no", type: 4, value: u32(no) },
    { key: "split.count", type: 4, value: u32(count) },
  ];
  return buildGguf({ kvs, tensors: [byteTensor(`t${no}`, 32, 0)], data: patternBytes(32, no) });
}

/** As many tensors as asked for, one byte each, in the given order of their places. */
export function manyTensors(names: readonly string[], order: "forwards" | "backwards"): Bytes {
  const last = names.length - 1;
  const entries = names.map((name, i) => {
    const begin = order === "forwards" ? i : last - i;
    return `${JSON.stringify(name)}:{"dtype":"U8","shape":[1],"data_offsets":[${begin},${begin + 1}]}`;
  });
  return rawSafetensors(`{${entries.join(",")}}`, new Uint8Array(names.length));
}

export function manyGgufTensors(names: readonly string[], order: "forwards" | "backwards"): Bytes {
  const last = names.length - 1;
  const tensors = names.map((name, i) => byteTensor(name, 1, 32 * (order === "forwards" ? i : last - i)));
  return buildGguf({ tensors, data: new Uint8Array(32 * names.length) });
}

/** A GGUF file with this key, so that `text` is not imported everywhere. */
export function keyed(key: string, value: string): Bytes {
  return buildGguf({ kvs: [{ key, type: 8, value: text(value) }] });
}
