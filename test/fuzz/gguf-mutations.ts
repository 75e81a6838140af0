import { type Bytes, concatBytes, startsWith } from "../../src/base/bytes.ts";
import { decodeUtf8, encodeUtf8 } from "../../src/base/text.ts";
import { array, text, u32, u64 } from "../builders/gguf.ts";
import { interestingNumber, putNumber } from "./byte-mutations.ts";
import { type GgufField, type GgufMap, type GgufSpan, mapGguf } from "./gguf-fields.ts";
import { mutateJson } from "./json-mutations.ts";
import type { Random } from "./random.ts";

const NAMES = ["", "__proto__", "general.alignment", "general.architecture", "split.count", "split.no", "tare.origin"]
  .concat(["constructor", "a\u0000b", "\u001b[31m", "x".repeat(70), "tokenizer.ggml.tokens"])
  .map(encodeUtf8)
  .concat([Uint8Array.of(0xff, 0xfe)]);

/** Undefined where the bytes are no GGUF file. */
export function mutateGguf(bytes: Bytes, random: Random): Bytes | undefined {
  if (!startsWith(bytes, [0x47, 0x47, 0x55, 0x46]) || bytes.byteLength < 24) return undefined;
  const map = mapGguf(bytes);
  switch (random.below(5)) {
    case 0:
      return replaceText(bytes, map, random);
    case 1:
      return duplicateSpan(bytes, map, random);
    case 2:
      return nestArray(bytes, random);
    default:
      return setField(bytes, random.pick(map.fields), random);
  }
}

function setField(bytes: Bytes, field: GgufField, random: Random): Bytes {
  const copy = bytes.slice();
  const old = new DataView(copy.buffer).getUint8(field.offset);
  const near = BigInt(old) + BigInt(random.pick([-1, 1, 8, 32]));
  const value = field.kind === "type" ? BigInt(random.below(48)) : interestingNumber(bytes.byteLength, random);
  putNumber(copy, field.offset, field.width, random.oneIn(3) ? near : value);
  return copy;
}

/** Another name, key or value with its length made right; JSON in it is changed as JSON. */
function replaceText(bytes: Bytes, map: GgufMap, random: Random): Bytes {
  const texts = map.spans.filter(({ kind }) => kind === "text");
  if (texts.length === 0) return bytes;
  const { offset, end } = random.pick(texts);
  const old = decodeUtf8(bytes.subarray(offset + 8, end));
  const isJson = old?.startsWith("{") === true;
  const content = isJson ? encodeUtf8(mutateJson(old, random)) : random.pick(NAMES);
  return concatBytes([bytes.slice(0, offset), text(content), bytes.slice(end)]);
}

/** A key or tensor twice, with the count made right. */
function duplicateSpan(bytes: Bytes, map: GgufMap, random: Random): Bytes {
  const rows = map.spans.filter(({ kind }) => kind !== "text");
  if (rows.length === 0) return bytes;
  const row: GgufSpan = random.pick(rows);
  const at = random.pick(rows.filter(({ kind }) => kind === row.kind)).offset;
  const grown = concatBytes([bytes.slice(0, at), bytes.slice(row.offset, row.end), bytes.slice(at)]);
  return addToCount(grown, row.kind === "tensor-info" ? 8 : 16);
}

/** A new first key whose value is an array of arrays of arrays, up to far beyond any limit. */
function nestArray(bytes: Bytes, random: Random): Bytes {
  const levels = random.pick([1, 2, 7, 8, 9, 100, 2000]);
  const head = concatBytes([text(random.pick(["deep", "general.alignment", "split.count"])), u32(9)]);
  const steps = Array.from({ length: levels }, () => concatBytes([u32(9), u64(random.oneIn(64) ? 2 : 1)]));
  const grown = concatBytes([bytes.slice(0, 24), head, ...steps, array(random.below(13), []), bytes.slice(24)]);
  return addToCount(grown, 16);
}

function addToCount(bytes: Bytes, offset: number): Bytes {
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  view.setBigUint64(offset, BigInt.asUintN(64, view.getBigUint64(offset, true) + 1n), true);
  return bytes;
}
