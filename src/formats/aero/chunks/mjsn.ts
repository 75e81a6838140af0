import type { Bytes } from "../../../base/bytes.ts";
import { FormatError } from "../../../base/errors.ts";
import { parseJsonNumber } from "../../../model/json-number.ts";
import { arrayValue, type MetadataEntry, type MetadataValue } from "../../../model/metadata.ts";
import { decodeJsonText, type JsonNode, parseStrictJson } from "../../../struct/strict-json.ts";
import type { ContentPlace } from "./tidx.ts";

/** The JSON metadata: its entries, in order. */
export interface JsonMetadata {
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
  return { entries: root.entries.map(([key, node]) => ({ key, value: toValue(node) })) };
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
      return parseJsonNumber(node.text);
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
