import type { Bytes } from "../../base/bytes.ts";
import type { Location } from "../../base/errors.ts";
import { ReverseBits } from "./zstd-bits.ts";
import { frameFault } from "./zstd-frame.ts";
import { decodeFseTable, nextState } from "./zstd-fse.ts";

/** RFC 8878 section 4.2.1: no code of a literal is longer. */
const MAX_CODE_BITS = 11;

/** RFC 8878 section 4.2.1.2: weights are 0 … 12 by their table; what exceeds MAX_CODE_BITS is refused later. */
const WEIGHT_LIMITS = { maxAccuracyLog: 6, maxSymbol: 12 };

/** The symbol of every run of `maxBits` bits, and how many of them are its code. */
export interface HuffmanTable {
  readonly maxBits: number;
  readonly symbols: Uint8Array;
  readonly bitCounts: Uint8Array;
}

/** A part of a block. */
export interface Run {
  readonly bytes: Bytes;
  readonly start: number;
  readonly end: number;
}

/** RFC 8878 section 4.2.1: the tree at the start of the run, and where it ends. */
export function decodeHuffmanTable(run: Run, at: Location): { readonly table: HuffmanTable; readonly end: number } {
  const { bytes, start } = run;
  const head = start < run.end ? (bytes[start] ?? 0) : 0;
  const byteLength = head < 128 ? head : (head - 126) >> 1;
  const end = start + 1 + byteLength;
  if (start >= run.end || end > run.end) throw frameFault("a Huffman tree must end inside its block", at);
  const weights =
    head < 128
      ? readCodedWeights({ bytes, start: start + 1, end }, at)
      : readPlainWeights(bytes, start + 1, head - 127);
  return { table: buildHuffmanTable(weights, at), end };
}

/** Decodes `count` symbols into `output`; the run must hold exactly their codes. */
export function decodeHuffmanStream(
  table: HuffmanTable,
  run: Run,
  output: { readonly bytes: Bytes; readonly start: number; readonly count: number },
  at: Location,
): void {
  const bits = new ReverseBits(run.bytes, run.start, run.end, at);
  const { maxBits, symbols, bitCounts } = table;
  const end = output.start + output.count;
  for (let i = output.start; i < end; i++) {
    const code = bits.peek(maxBits);
    output.bytes[i] = symbols[code] ?? 0;
    bits.left -= bitCounts[code] ?? 0;
  }
  if (bits.left !== 0) throw frameFault("a stream of literals must end with its last code", at);
}

function readPlainWeights(bytes: Bytes, start: number, count: number): number[] {
  return Array.from({ length: count }, (_, i) => {
    const pair = bytes[start + (i >> 1)] ?? 0;
    return i % 2 === 0 ? pair >> 4 : pair & 15;
  });
}

/** Two states take turns until the bits of the next one are no longer there (RFC 8878 section 4.2.1.2). */
function readCodedWeights(run: Run, at: Location): number[] {
  const { table, end } = decodeFseTable(run, WEIGHT_LIMITS, at);
  const bits = new ReverseBits(run.bytes, end, run.end, at);
  const states = [bits.read(table.accuracyLog), bits.read(table.accuracyLog)];
  if (bits.left < 0) throw frameFault("the weights of a Huffman tree must not end early", at);
  const weights: number[] = [];
  for (let turn = 0; ; turn ^= 1) {
    const state = states[turn] ?? 0;
    weights.push(table.symbols[state] ?? 0);
    if (bits.left < (table.bitCounts[state] ?? 0)) {
      weights.push(table.symbols[states[turn ^ 1] ?? 0] ?? 0);
      return weights;
    }
    // 255 weights and the one that is implied are all symbols there are. Also ends tables whose states take no bits.
    if (weights.length > 254) throw frameFault("a Huffman tree must have <= 255 weights", at);
    states[turn] = nextState(table, state, bits);
  }
}

/** The weight of the last symbol is implied: it fills the tree up to a power of two (RFC 8878 section 4.2.1). */
function buildHuffmanTable(weights: number[], at: Location): HuffmanTable {
  const sum = weights.reduce((total, weight) => total + (weight === 0 ? 0 : 2 ** (weight - 1)), 0);
  const maxBits = sum === 0 ? 0 : Math.floor(Math.log2(sum)) + 1;
  const last = Math.log2(2 ** maxBits - sum);
  const isTree = maxBits >= 1 && maxBits <= MAX_CODE_BITS && Number.isInteger(last) && weights.length <= 255;
  if (!isTree) throw frameFault("the weights of a Huffman tree must add up to a power of two <= 2^11", at);
  const all = [...weights, last + 1];
  if (!all.includes(1)) throw frameFault("a Huffman tree must have codes of its full length", at);
  const symbols = new Uint8Array(1 << maxBits);
  const bitCounts = new Uint8Array(1 << maxBits);
  let position = 0;
  for (let weight = 1; weight <= maxBits; weight++) {
    all.forEach((own, symbol) => {
      if (own !== weight) return;
      const end = position + (1 << (weight - 1));
      symbols.fill(symbol, position, end);
      bitCounts.fill(maxBits + 1 - weight, position, end);
      position = end;
    });
  }
  return { maxBits, symbols, bitCounts };
}
