import { decodeUtf8, encodeUtf8 } from "../base/text.ts";
import type { EncodedValue, MetadataValue } from "./metadata.ts";

/** Says that `encoded.bytes` are the digits of a JSON number that no type here holds exactly. */
export const JSON_NUMBER = "json-number";

/** The number of RFC 8259, section 6, in its parts. */
const NUMBER = /^(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$/;

/**
 * Digits alone are an integer where 64 bits hold it; everything else, "-0" and "1.0" too, is a float. A number with
 * more digits than a float keeps its text, so that writing it again does not round it.
 */
export function parseJsonNumber(text: string): MetadataValue {
  const integer = parseInteger(text);
  if (integer !== undefined) return integer;
  const value = Number(text);
  if (isSameNumber(text, String(value))) return { type: "f64", value };
  return { type: "f64", value, encoded: { encoding: JSON_NUMBER, bytes: encodeUtf8(text) } };
}

/** A number that `tare.origin` carried; undefined where it is not ours or no number. */
export function decodeJsonNumber({ encoding, bytes }: EncodedValue): MetadataValue | undefined {
  const text = encoding === JSON_NUMBER ? decodeUtf8(bytes) : undefined;
  return text !== undefined && NUMBER.test(text) ? parseJsonNumber(text) : undefined;
}

function parseInteger(text: string): MetadataValue | undefined {
  // 2^64 has 20 digits, -2^63 has 19 and a sign.
  if (!/^-?[0-9]{1,20}$/.test(text) || text === "-0") return undefined;
  const value = Number(text);
  if (Number.isSafeInteger(value)) return { type: "i64", value };
  const exact = BigInt(text);
  if (exact >= -(2n ** 63n) && exact < 2n ** 63n) return { type: "i64", value: exact };
  return exact > 0 && exact < 2n ** 64n ? { type: "u64", value: exact } : undefined;
}

/** True where two spellings mean one decimal number: 1e2, 100 and 100.0 do. */
function isSameNumber(a: string, b: string): boolean {
  return a === b || (decimalOf(a) ?? "none") === decimalOf(b);
}

/** Sign, digits without zeros at either end, and the power of ten of the last one. */
function decimalOf(text: string): string | undefined {
  const [, sign = "", whole = "", fraction = "", exponent = "0"] = NUMBER.exec(text) ?? [];
  if (whole === "") return undefined;
  const digits = (whole + fraction).replace(/^0+/, "");
  if (digits === "") return "0"; // 0, -0 and 0.0e9: only the sign differs, and a float has one
  // No /0+$/: on a long run of zeros that ends in another digit it takes the square of its length.
  let end = digits.length;
  while (digits.charCodeAt(end - 1) === 0x30) end--;
  return `${sign}${digits.slice(0, end)}e${Number(exponent) - fraction.length + digits.length - end}`;
}
