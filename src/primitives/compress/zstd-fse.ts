import type { Bytes } from "../../base/bytes.ts";
import type { Location } from "../../base/errors.ts";
import { ForwardBits, type ReverseBits } from "./zstd-bits.ts";
import { frameFault } from "./zstd-frame.ts";

/** A decoding table of finite state entropy: for every state its symbol and how the next state is read. */
export interface FseTable {
  readonly accuracyLog: number;
  readonly symbols: Uint8Array;
  readonly bitCounts: Uint8Array;
  readonly baselines: Uint16Array;
}

export interface FseLimits {
  readonly maxAccuracyLog: number;
  readonly maxSymbol: number;
}

/** RFC 8878 section 4.1.1: the distribution at `start`, its table, and where it ends. */
export function decodeFseTable(
  run: { readonly bytes: Bytes; readonly start: number; readonly end: number },
  limits: FseLimits,
  at: Location,
): { readonly table: FseTable; readonly end: number } {
  const bits = new ForwardBits(run.bytes, run.start, run.end);
  const accuracyLog = bits.peek(4) + 5;
  bits.skip(4);
  if (accuracyLog > limits.maxAccuracyLog) {
    throw frameFault(`the accuracy log must be <= ${limits.maxAccuracyLog}, found ${accuracyLog}`, at);
  }
  const counts = readCounts(bits, 1 << accuracyLog, limits, at);
  const end = bits.end();
  if (end === undefined) throw frameFault("an FSE table must end inside its block", at);
  return { table: buildFseTable(counts, accuracyLog, at), end };
}

/** The table of one symbol that takes no bits (RFC 8878 section 3.1.1.3.2.1, RLE_Mode). */
export function singleSymbolTable(symbol: number): FseTable {
  return {
    accuracyLog: 0,
    symbols: Uint8Array.of(symbol),
    bitCounts: new Uint8Array(1),
    baselines: new Uint16Array(1),
  };
}

/** RFC 8878 section 4.1.1, from the probability of each symbol; -1 stands for "less than 1". */
export function buildFseTable(counts: readonly number[], accuracyLog: number, at: Location): FseTable {
  const size = 1 << accuracyLog;
  const symbols = spreadSymbols(counts, size, at);
  const next = counts.map((count) => Math.abs(count));
  const bitCounts = new Uint8Array(size);
  const baselines = new Uint16Array(size);
  for (let state = 0; state < size; state++) {
    const symbol = symbols[state] ?? 0;
    const place = next[symbol] ?? 1;
    next[symbol] = place + 1;
    const bitCount = accuracyLog - (31 - Math.clz32(place));
    bitCounts[state] = bitCount;
    baselines[state] = (place << bitCount) - size;
  }
  return { accuracyLog, symbols, bitCounts, baselines };
}

/** The state that follows; takes its bits. */
export function nextState(table: FseTable, state: number, bits: ReverseBits): number {
  return (table.baselines[state] ?? 0) + bits.read(table.bitCounts[state] ?? 0);
}

function readCounts(bits: ForwardBits, total: number, limits: FseLimits, at: Location): number[] {
  const counts: number[] = [];
  for (let left = total; left > 0; ) {
    // Values 0 … left + 1 are possible. The low ones take one bit less, as far as that leaves room for the others.
    const width = 32 - Math.clz32(left + 1);
    const short = (1 << width) - 1 - (left + 1);
    let value = bits.peek(width - 1);
    if (value < short) bits.skip(width - 1);
    else {
      value = bits.peek(width);
      bits.skip(width);
      if (value >= 1 << (width - 1)) value -= short;
    }
    counts.push(value - 1);
    left -= Math.abs(value - 1);
    if (left < 0) throw frameFault("the probabilities of an FSE table must add up to its size", at);
    if (value === 1) readZeros(bits, counts, limits);
    if (counts.length > limits.maxSymbol + 1) {
      throw frameFault(`an FSE table must have symbols up to ${limits.maxSymbol}`, at);
    }
  }
  return counts;
}

/** A probability of 0 is followed by two bits: how many more there are; 3 is followed by two bits more. */
function readZeros(bits: ForwardBits, counts: number[], limits: FseLimits): void {
  for (let repeat = 3; repeat === 3 && counts.length <= limits.maxSymbol + 1; ) {
    repeat = bits.peek(2);
    bits.skip(2);
    for (let i = 0; i < repeat; i++) counts.push(0);
  }
}

function spreadSymbols(counts: readonly number[], size: number, at: Location): Uint8Array {
  const symbols = new Uint8Array(size);
  let high = size;
  counts.forEach((count, symbol) => {
    if (count === -1) symbols[--high] = symbol;
  });
  const step = (size >> 1) + (size >> 3) + 3;
  let position = 0;
  counts.forEach((count, symbol) => {
    for (let i = 0; i < count; i++) {
      symbols[position] = symbol;
      do position = (position + step) & (size - 1);
      while (position >= high);
    }
  });
  if (position !== 0) throw frameFault("the probabilities of an FSE table must add up to its size", at);
  return symbols;
}
