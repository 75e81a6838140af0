import type { JsonNode } from "../../struct/strict-json.ts";

/** The value of a key; undefined where the node is no object or has no such key. */
export function member(node: JsonNode | undefined, key: string): JsonNode | undefined {
  if (node?.type !== "object") return undefined;
  return node.entries.find(([name]) => name === key)?.[1];
}

export function textIn(node: JsonNode | undefined, key: string): string | undefined {
  const value = member(node, key);
  return value?.type === "string" ? value.value : undefined;
}

export function numberIn(node: JsonNode | undefined, key: string): number | undefined {
  const value = member(node, key);
  return value?.type === "number" ? Number(value.text) : undefined;
}

/** As text, so that callers cannot mistake "false" for "not said". */
export function isTrueOrFalse(node: JsonNode | undefined, key: string): "true" | "false" | undefined {
  const value = member(node, key);
  return value?.type === "bool" ? (value.value ? "true" : "false") : undefined;
}

/** A whole number above zero; undefined for anything else. */
export function positiveIn(node: JsonNode | undefined, key: string): number | undefined {
  const value = numberIn(node, key);
  return value !== undefined && Number.isSafeInteger(value) && value > 0 ? value : undefined;
}
