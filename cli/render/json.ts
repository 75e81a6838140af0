import { encodeHex } from "../../src/base/text.ts";

/**
 * JSON of a result. Numbers that JSON cannot say become null (NaN, infinities) or their digits as a string (above 2^53
 * - 1, where readers would round); bytes become hex. Characters that control a terminal, or that reorder what a person
 * sees, are escaped: they come from untrusted files, and JSON reads them back the same.
 */
export function encodeJson(value: unknown, layout: "compact" | "pretty"): string {
  const text = JSON.stringify(value, (_key, item: unknown) => plain(item), layout === "pretty" ? 2 : undefined);
  return text.replace(/[\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

function plain(item: unknown): unknown {
  if (typeof item === "bigint") return item.toString();
  if (typeof item === "number" && !Number.isFinite(item)) return null;
  if (item instanceof Uint8Array) return encodeHex(item as Uint8Array<ArrayBuffer>);
  if (ArrayBuffer.isView(item)) return Array.from(item as unknown as ArrayLike<number>);
  return item;
}
