import type { Bytes } from "../../base/bytes.ts";
import type { Format, Head, SniffResult } from "../../model/format.ts";

/** The longest header of the specification. It is here, because a longer one is no SafeTensors file. */
export const MAX_HEADER_BYTES = 100_000_000;

/** Bytes of the length field before the header. */
export const LENGTH_BYTES = 8;

/** SafeTensors: what is known before its code is loaded, and the loaders of the rest. */
export const safetensors: Format = {
  id: "safetensors",
  name: "SafeTensors",
  kind: "model",
  extensions: [".safetensors", ".safetensors.index.json"],
  index: { extensions: [".safetensors.index.json"], parts: "same stem" },
  sniff: sniffSafetensors,
  read: async () => (await import("./read.ts")).reader,
  verify: async () => (await import("./verify.ts")).verifier,
  write: async () => (await import("./write.ts")).writer,
};

const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const QUOTE = 0x22;
const INDEX_MARK = '"weight_map"';

/** The format has no magic: all we can check is a plausible length and the beginning of a JSON object after it. */
export function sniffSafetensors(head: Head): SniffResult {
  const { bytes } = head;
  if (isIndexText(bytes)) return includesAscii(bytes, INDEX_MARK) ? "yes" : "no";
  if (isPlausibleLength(bytes) && beginsObject(bytes, LENGTH_BYTES)) return "yes";
  return bytes.byteLength > 0 ? "possible" : "no";
}

/**
 * JSON text instead of a length: `{` comes first, and no zero byte. A header length has zeros in its upper four
 * bytes, because the limit is 100 MB.
 */
export function isIndexText(bytes: Bytes): boolean {
  const first = skipSpace(bytes, 0);
  if (bytes[first] !== OPEN_BRACE) return false;
  return !bytes.subarray(0, LENGTH_BYTES).includes(0);
}

function isPlausibleLength(bytes: Bytes): boolean {
  if (bytes.byteLength <= LENGTH_BYTES) return false;
  const view = new DataView(bytes.buffer, bytes.byteOffset, LENGTH_BYTES);
  const length = view.getUint32(0, true);
  return view.getUint32(4, true) === 0 && length >= 2 && length <= MAX_HEADER_BYTES;
}

/** `{` and then a key or the end, whitespace allowed around. */
function beginsObject(bytes: Bytes, start: number): boolean {
  const brace = skipSpace(bytes, start);
  if (bytes[brace] !== OPEN_BRACE) return false;
  const next = bytes[skipSpace(bytes, brace + 1)];
  return next === QUOTE || next === CLOSE_BRACE;
}

function skipSpace(bytes: Bytes, start: number): number {
  let i = start;
  while (bytes[i] === 0x20 || bytes[i] === 0x0a || bytes[i] === 0x0d || bytes[i] === 0x09) i++;
  return i;
}

function includesAscii(bytes: Bytes, text: string): boolean {
  const first = text.charCodeAt(0);
  for (let i = bytes.indexOf(first); i >= 0; i = bytes.indexOf(first, i + 1)) {
    let k = 1;
    while (k < text.length && bytes[i + k] === text.charCodeAt(k)) k++;
    if (k === text.length) return true;
  }
  return false;
}
