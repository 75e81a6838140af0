import type { Bytes } from "../../base/bytes.ts";
import { encodeUtf8 } from "../../base/text.ts";
import type { ArrayValue, MetadataValue, ValueType } from "../../model/metadata.ts";
import { ByteWriter } from "../../struct/byte-writer.ts";
import { ARRAY_ID, valueTypeId } from "./layout.ts";
import { GGUF_ENCODING } from "./values.ts";

/** True where GGUF has a type for the value: scalars, strings, and arrays whose elements share one such type. */
export function hasGgufType(value: MetadataValue): boolean {
  if (value.encoded?.encoding === GGUF_ENCODING) return true;
  if (value.type !== "array") return valueTypeId(value.type) !== undefined;
  const type = elementTypeOf(value);
  if (type === undefined || valueTypeId(type) === undefined) return false;
  // Readers that know the element type vouch for it; only arrays of arrays have to be looked into.
  return type === "array" ? value.slice().every(hasGgufType) : true;
}

/** Type id and value as GGUF stores them; the stored bytes themselves where the value still has them. */
export function encodeGgufValue(value: MetadataValue): Bytes {
  if (value.encoded?.encoding === GGUF_ENCODING) return value.encoded.bytes;
  const writer = new ByteWriter();
  writer.u32(valueTypeId(value.type) ?? 0);
  writeValue(writer, value);
  return writer.take();
}

/** The one type of all elements; undefined where they differ, or where there are none to tell by. */
function elementTypeOf(value: ArrayValue): ValueType | undefined {
  if (value.elementType !== undefined) return value.elementType;
  const [first, ...others] = value.slice();
  return first !== undefined && others.every((item) => item.type === first.type) ? first.type : undefined;
}

function writeValue(writer: ByteWriter, value: MetadataValue): void {
  switch (value.type) {
    case "string":
      writeText(writer, value.raw ?? encodeUtf8(value.value));
      break;
    case "bool":
      writer.u8(value.raw ?? (value.value ? 1 : 0));
      break;
    case "u64":
    case "i64":
      writer[value.type](value.value);
      break;
    case "array":
      writeArray(writer, value);
      break;
    case "null":
    case "bytes":
    case "map":
      break; // never native: `hasGgufType` says so
    default:
      writer[value.type](Number(value.value));
  }
}

function writeText(writer: ByteWriter, bytes: Bytes): void {
  writer.u64(bytes.byteLength);
  writer.bytes(bytes);
}

function writeArray(writer: ByteWriter, value: ArrayValue): void {
  const elements = value.slice();
  writer.u32(valueTypeId(elementTypeOf(value) ?? "u8") ?? ARRAY_ID);
  writer.u64(elements.length);
  for (const element of elements) writeValue(writer, element);
}
