import type { Bytes } from "../../../base/bytes.ts";
import { FormatError } from "../../../base/errors.ts";
import { arrayValue, type MetadataEntry, type MetadataValue } from "../../../model/metadata.ts";
import { decodeJsonText, type JsonNode, parseStrictJson } from "../../../struct/strict-json.ts";
import type { ContentPlace } from "./tidx.ts";

/** The JSON metadata: its entries in order, and its text, by which the same file can be written again. */
export interface JsonMetadata {
  readonly text: string;
  readonly entries: readonly MetadataEntry[];
}

/** Refuses what is not one JSON object. */
export function decodeMjsn(content: Bytes, { label, offset }: ContentPlace): JsonMetadata {
  const place = { source: label, offset, what: "AERO MJSN" };
  const text = decodeJsonText(content, place);
  const root = parseStrictJson(text, place);
  if (root.type !== "object") {
    const message = `Cannot read AERO MJSN: must be a JSON object, found ${root.type}`;
    throw new FormatError("format/aero.mjsn", message, { source: label, offset, path: "mjsn" });
  }
  return { text, entries: root.entries.map(([key, node]) => ({ key, value: toValue(node) })) };
}

function toValue(node: JsonNode): MetadataValue {
  switch (node.type) {
    case "null":
      return { type: "null" };
    case "bool":
      return { type: "bool", value: node.value };
    case "string":
      return { type: "string", value: node.value };
    case "number":
      return toNumber(node.text);
    case "array": {
      const items = node.items.map(toValue);
      const [first] = items;
      const isUniform = first !== undefined && items.every((item) => item.type === first.type);
      return arrayValue(items, isUniform ? first.type : undefined);
    }
    case "object":
      return { type: "map", entries: node.entries.map(([key, item]) => ({ key, value: toValue(item) })) };
  }
}

/** Digits alone are an integer where 64 bits hold it; everything else, "-0" and "1.0" too, is a float. */
function toNumber(text: string): MetadataValue {
  if (!/^-?[0-9]+$/.test(text) || text === "-0") return { type: "f64", value: Number(text) };
  const value = Number(text);
  if (Number.isSafeInteger(value)) return { type: "i64", value };
  if (text.length > 20) return { type: "f64", value };
  const exact = BigInt(text);
  if (exact >= -(2n ** 63n) && exact < 2n ** 63n) return { type: "i64", value: exact };
  return exact > 0 && exact < 2n ** 64n ? { type: "u64", value: exact } : { type: "f64", value };
}
