import { encodeUtf8 } from "../../base/text.ts";
import { type MetadataEntry, stringValue } from "../../model/metadata.ts";
import { ORIGIN_KEY } from "../../model/origin-key.ts";
import { MAX_TEXT_BYTES } from "./layout.ts";
import type { TextEntry } from "./metadata-section.ts";

/**
 * A value has at most 65 535 bytes, and `tare.origin` can be longer, so it is cut: the rest stands under "tare.origin.1",
 * "tare.origin.2" and so on.
 */
const partKey = (part: number): string => (part === 0 ? ORIGIN_KEY : `${ORIGIN_KEY}.${part}`);

/** True for the keys that parts of an origin take. */
export function isOriginPart(key: string): boolean {
  return /^tare\.origin\.[1-9][0-9]*$/.test(key);
}

/** The entries that hold an origin. Never cuts inside a character. */
export function splitOrigin(text: string): TextEntry[] {
  const entries: TextEntry[] = [];
  let start = 0;
  do {
    // At most three bytes a code unit: this many always fit, and usually more do.
    let end = Math.min(text.length, start + MAX_TEXT_BYTES);
    while (encodeUtf8(text.slice(start, end)).byteLength > MAX_TEXT_BYTES) end -= Math.ceil((end - start) / 8);
    if (end < text.length && isHighSurrogate(text.charCodeAt(end - 1))) end--;
    entries.push({ key: partKey(entries.length), value: { type: "string", value: text.slice(start, end) } });
    start = end;
  } while (start < text.length);
  return entries;
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}

/** The entries with an origin that was cut in one piece again, where its first part stands. */
export function joinOrigin(entries: readonly MetadataEntry[]): readonly MetadataEntry[] {
  const texts = new Map<string, string>();
  for (const { key, value } of entries) {
    if (value.type === "string" && value.raw === undefined) texts.set(key, value.value);
  }
  if (!texts.has(ORIGIN_KEY) || !texts.has(partKey(1))) return entries;
  let text = "";
  const taken = new Set<string>();
  for (let part = 0; texts.has(partKey(part)); part++) {
    text += texts.get(partKey(part)) ?? "";
    taken.add(partKey(part));
  }
  return entries.flatMap((entry) => {
    if (entry.key === ORIGIN_KEY) return [{ key: ORIGIN_KEY, value: stringValue(text) }];
    return taken.has(entry.key) ? [] : [entry];
  });
}
