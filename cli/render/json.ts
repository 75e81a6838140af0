import { encodeHex } from "../../src/base/hex.ts";

/**
 * JSON of a result. Numbers that JSON cannot say become null (NaN, infinities) or their digits as a string
 * (beyond 2^53 - 1, where readers would round); bytes become hex.
 */
export function encodeJson(value: unknown, layout: "compact" | "pretty"): string {
  return JSON.stringify(value, (_key, item: unknown) => plain(item), layout === "pretty" ? 2 : undefined);
}

function plain(item: unknown): unknown {
  if (typeof item === "bigint") return item.toString();
  if (typeof item === "number" && !Number.isFinite(item)) return null;
  if (item instanceof Uint8Array) return encodeHex(item as Uint8Array<ArrayBuffer>);
  if (ArrayBuffer.isView(item)) return Array.from(item as unknown as ArrayLike<number>);
  return item;
}
