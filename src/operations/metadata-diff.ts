import { equalBytes } from "../base/bytes.ts";
import type { Metadata, MetadataValue } from "../model/metadata.ts";
import { ORIGIN_KEY } from "../model/origin.ts";

export interface MetadataChange {
  readonly key: string;
  readonly what: "added" | "removed" | "changed";
}

/** What a conversion keeps for itself is no difference between two models. */
export function compareMetadata(a: Metadata, b: Metadata): MetadataChange[] {
  const changes: MetadataChange[] = [];
  for (const { key, value } of a) {
    if (key === ORIGIN_KEY) continue;
    const other = b.get(key);
    if (other === undefined) changes.push({ key, what: "removed" });
    else if (!equalValues(value, other)) changes.push({ key, what: "changed" });
  }
  for (const { key } of b) if (key !== ORIGIN_KEY && a.get(key) === undefined) changes.push({ key, what: "added" });
  return changes;
}

function equalValues(a: MetadataValue, b: MetadataValue): boolean {
  if (a.encoded !== undefined && b.encoded?.encoding === a.encoded.encoding) {
    return equalBytes(a.encoded.bytes, b.encoded.bytes);
  }
  if (a.type === "array" && b.type === "array") {
    if (a.length !== b.length) return false;
    const items = b.slice();
    return a.slice().every((item, i) => equalValues(item, items[i] as MetadataValue));
  }
  if (a.type === "map" && b.type === "map") {
    return (
      a.entries.length === b.entries.length &&
      a.entries.every(({ key, value }, i) => key === b.entries[i]?.key && equalValues(value, b.entries[i].value))
    );
  }
  if (a.type === "bytes" && b.type === "bytes") return equalBytes(a.value, b.value);
  return "value" in a && "value" in b ? Object.is(a.value, b.value) : a.type === b.type;
}
