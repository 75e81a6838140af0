import { type Bytes, concatBytes } from "../../src/base/bytes.ts";
import { decodeUtf8, encodeUtf8 } from "../../src/base/text.ts";
import { putNumber } from "./byte-mutations.ts";
import type { Random } from "./random.ts";

/** Strings, numbers, words, and every other character by itself. */
const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|[a-z]+|\s+|./gsu;

const NUMBERS = ["0", "-0", "1", "-1", "00", "7", "1e2", "1E+2", "0.5", "1e400", "2147483648", "4294967296"]
  .concat(["9007199254740991", "9007199254740992", "9223372036854775808", "18446744073709551615", "1".repeat(400)])
  .map(String);

const STRINGS = ["", "__metadata__", "__proto__", "constructor", "toString", "tare.origin", "weight_map", "metadata"]
  .concat(["dtype", "shape", "data_offsets", "F32", "F4", "BOOL", "Q4_0", "../x", "/etc/passwd", "a\\b", "C:x", "null"])
  .concat(["\u0000", "\u001b[2J", "ä", "\u{1f9ca}", "json", "gguf", "array", "u64", "x".repeat(300)])
  .map((text) => JSON.stringify(text))
  .concat(['"\\ud800"', '"\\u0061"', '"\\x"', '"open', '"\\u00"']);

/** Deeper than any stack, and still short enough for an input. */
const DEEP = 20_000;
const VALUES = ["null", "true", "[]", "{}", "[[]]", '{"":0}', "[".repeat(200)].concat([
  `${'{"a":'.repeat(130)}0${"}".repeat(130)}`,
  "[".repeat(DEEP) + "]".repeat(DEEP),
]);

/** One change to JSON text that mostly leaves it JSON. */
export function mutateJson(text: string, random: Random): string {
  const tokens = text.match(TOKEN) ?? [];
  if (tokens.length === 0) return random.pick(VALUES);
  const at = random.below(tokens.length);
  const token = tokens[at] as string;
  // Most changes keep the grammar, so that more than the grammar is tried.
  switch (random.below(14)) {
    case 0:
      return replaceToken(tokens, at, random.pick(NUMBERS.concat(VALUES)));
    case 1:
      return replaceToken(tokens, at, "");
    case 2:
      return replaceToken(tokens, at, token + token);
    case 3:
      return replaceToken(tokens, at, random.pick(["{", "}", "[", "]", ",", ":", " ", "\t", '"', "//"]) + token);
    case 4:
      return duplicateEntry(tokens, random);
    case 5:
    case 8:
    case 9:
    case 10:
      return replaceKind(tokens, random, /^"/, (old) => mutateString(old, random));
    case 6:
      return swapTokens(tokens, at, random.below(tokens.length));
    default:
      return replaceKind(tokens, random, /^-?\d/, (old) => mutateNumber(old, random));
  }
}

function replaceToken(tokens: readonly string[], at: number, token: string): string {
  return [...tokens.slice(0, at), token, ...tokens.slice(at + 1)].join("");
}

function swapTokens(tokens: readonly string[], a: number, b: number): string {
  const swapped = [...tokens];
  swapped[a] = tokens[b] as string;
  swapped[b] = tokens[a] as string;
  return swapped.join("");
}

/** Changes one token of a kind; the text as it is where there is none. */
function replaceKind(tokens: readonly string[], random: Random, kind: RegExp, change: (old: string) => string): string {
  const places = [...tokens.keys()].filter((i) => kind.test(tokens[i] as string));
  if (places.length === 0) return tokens.join("");
  const at = random.pick(places);
  return replaceToken(tokens, at, change(tokens[at] as string));
}

function mutateNumber(old: string, random: Random): string {
  const value = Number(old);
  return random.oneIn(2) ? random.pick(NUMBERS) : String(value + random.pick([-1, 1, 8, -8, 4096]));
}

/** JSON inside a string, such as `tare.origin`, is changed as JSON. */
function mutateString(old: string, random: Random): string {
  let inner: unknown;
  try {
    inner = JSON.parse(old);
  } catch {
    return random.pick(STRINGS); // an earlier mutation has broken it
  }
  if (typeof inner === "string" && inner.startsWith("{")) return JSON.stringify(mutateJson(inner, random));
  return random.pick(STRINGS);
}

/** `"key":value` twice, as parsers that let the first or the last one win would both accept. */
function duplicateEntry(tokens: readonly string[], random: Random): string {
  const starts = [...tokens.keys()].filter((i) => tokens[i]?.startsWith('"') && tokens[i + 1] === ":");
  if (starts.length === 0) return tokens.join("");
  const start = random.pick(starts);
  let depth = 0;
  let end = start + 2;
  for (; end < tokens.length; end++) {
    if (tokens[end] === "{" || tokens[end] === "[") depth++;
    if (tokens[end] === "}" || tokens[end] === "]") depth--;
    if (depth <= 0 && !/^\s/.test(tokens[end] as string)) break;
  }
  const entry = tokens.slice(start, end + 1).join("");
  return [...tokens.slice(0, start), entry, ",", ...tokens.slice(start)].join("");
}

/** Undefined where the file has no JSON header: 8 bytes of length and `{`, or JSON from the first byte. */
export function mutateJsonHeader(bytes: Bytes, random: Random): Bytes | undefined {
  if (bytes[0] === 0x7b && bytes[1] !== 0) return mutateWhole(bytes, random);
  if (bytes.byteLength < 10 || bytes[8] !== 0x7b) return undefined;
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const text = decodeUtf8(bytes.subarray(8, 8 + length));
  if (text === undefined) return undefined;
  const header = encodeUtf8(mutateJson(text, random));
  const field = new Uint8Array(8);
  // Mostly the length is made right again, so that what lies behind it is reached.
  putNumber(field, 0, 8, BigInt(random.oneIn(16) ? length : header.byteLength));
  return concatBytes([field, header, bytes.slice(8 + length)]);
}

function mutateWhole(bytes: Bytes, random: Random): Bytes | undefined {
  const text = decodeUtf8(bytes);
  return text === undefined ? undefined : encodeUtf8(mutateJson(text, random));
}
