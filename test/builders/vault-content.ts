import { hash } from "node:crypto";
import { type Bytes, concatBytes } from "../../src/base/bytes.ts";
import { encodeUtf8 } from "../../src/base/text.ts";

/** Contents that can be said in a line and made again anywhere: test vaults are described by them. */
export type Content =
  | { readonly kind: "utf8"; readonly text: string }
  | { readonly kind: "byte"; readonly byte: number; readonly len: number }
  | { readonly kind: "concat"; readonly parts: readonly Content[] }
  | { readonly kind: "lines" | "sha256ctr"; readonly seed: string; readonly len: number }
  | { readonly kind: "xs" | "words"; readonly seed: string; readonly len: number };

const WORDS =
  "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut labore et dolore magna aliqua enim ad minim veniam quis nostrud exercitation ullamco laboris nisi ex ea commodo".split(
    " ",
  );
const MASK = (1n << 64n) - 1n;

/** The bytes that a description stands for. */
export function makeContent(content: Content): Bytes {
  switch (content.kind) {
    case "utf8":
      return encodeUtf8(content.text);
    case "byte":
      return new Uint8Array(content.len).fill(content.byte);
    case "concat":
      return concatBytes(content.parts.map(makeContent));
    case "lines":
      return makeLines(content.seed, content.len);
    case "sha256ctr":
      return makeNoise(content.seed, content.len);
    case "xs":
      return makeXorshift(content.seed, content.len);
    case "words":
      return makeWords(content.seed, content.len);
  }
}

/** Numbered lines: compressible. */
function makeLines(seed: string, length: number): Bytes {
  const lines: string[] = [];
  let size = 0;
  for (let i = 0; size < length; i++) {
    const line = `${seed}:${String(i).padStart(8, "0")} the quick brown fox jumps over the lazy dog\n`;
    lines.push(line);
    size += line.length;
  }
  return encodeUtf8(lines.join("")).slice(0, length);
}

/** SHA-256 of a seed and a counter: cannot be compressed. */
function makeNoise(seed: string, length: number): Bytes {
  const bytes = new Uint8Array(Math.ceil(length / 32) * 32);
  const input = Buffer.concat([Buffer.from(seed), Buffer.alloc(8)]);
  for (let i = 0; i * 32 < length; i++) {
    input.writeUInt32LE(i, input.byteLength - 8); // the low half of a u64
    bytes.set(hash("sha256", input, "buffer"), i * 32);
  }
  return bytes.slice(0, length);
}

/** The low bytes of a 64-bit xorshift. */
export function makeXorshift(seed: string | bigint, length: number): Bytes {
  const bytes = new Uint8Array(length);
  let x = BigInt(seed) | 1n;
  for (let i = 0; i < length; i++) {
    x = step(x);
    bytes[i] = Number(x & 255n);
  }
  return bytes;
}

function makeWords(seed: string, length: number): Bytes {
  const words: string[] = [];
  let size = 0;
  let x = BigInt(seed) | 1n;
  while (size < length) {
    x = step(x);
    const word = `${WORDS[Number((x >> 8n) & 31n)] ?? ""}${((x >> 20n) & 15n) === 0n ? "\n" : " "}`;
    words.push(word);
    size += word.length;
  }
  return encodeUtf8(words.join("")).slice(0, length);
}

function step(from: bigint): bigint {
  let x = from;
  x ^= (x << 13n) & MASK;
  x ^= x >> 7n;
  return x ^ ((x << 17n) & MASK);
}
