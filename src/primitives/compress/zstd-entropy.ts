import type { Bytes } from "../../base/bytes.ts";
import type { Location } from "../../base/errors.ts";
import { frameFault } from "./zstd.ts";

/** How far past its last byte a bit reader may read. */
export const BIT_PADDING = 8;

/**
 * Reads bits from the end of a run of bytes towards its start (RFC 8878 section 4.1): the highest set bit of the last
 * byte marks where the bits begin. `bytes` must have BIT_PADDING bytes after the run.
 */
export class ReverseBits {
  /** Bits not yet read; negative if more were read than there are. */
  left: number;
  readonly #view: DataView<ArrayBuffer>;
  readonly #start: number;

  constructor(bytes: Bytes, start: number, end: number, at: Location) {
    const last = end > start ? (bytes[end - 1] ?? 0) : 0;
    if (last === 0) throw frameFault("a run of bits must end in a byte that is not 0", at);
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#start = start;
    this.left = (end - start) * 8 - 1 - Math.clz32(last << 24);
  }

  /** The next `count` bits, 0 … 24, without consuming them. Missing bits are 0. */
  peek(count: number): number {
    const position = this.left - count;
    if (position < 0) return this.left <= 0 ? 0 : this.#at(0, this.left) << -position;
    return this.#at(position, count);
  }

  /** The next `count` bits, 0 … 31. */
  read(count: number): number {
    if (count > 24) {
      const high = this.read(count - 16);
      return high * 0x1_0000 + this.read(16);
    }
    const value = this.peek(count);
    this.left -= count;
    return value;
  }

  #at(position: number, count: number): number {
    const word = this.#view.getUint32(this.#start + (position >> 3), true);
    return (word >>> (position & 7)) & ((1 << count) - 1);
  }
}

/** Reads bits from the start of a run of bytes, lowest first; for the counts at the head of an FSE table. */
class ForwardBits {
  #position = 0;
  readonly #bytes: Bytes;
  readonly #start: number;
  readonly #end: number;

  constructor(bytes: Bytes, start: number, end: number) {
    this.#bytes = bytes;
    this.#start = start;
    this.#end = end;
  }

  /** The next `count` bits, 0 … 16, without consuming them. Missing bits are 0. */
  peek(count: number): number {
    const byte = this.#start + (this.#position >> 3);
    const word = this.#byte(byte) | (this.#byte(byte + 1) << 8) | (this.#byte(byte + 2) << 16);
    return (word >>> (this.#position & 7)) & ((1 << count) - 1);
  }

  skip(count: number): void {
    this.#position += count;
  }

  /** The position of the byte after the last bit; undefined if more was read than there is. */
  end(): number | undefined {
    const end = this.#start + ((this.#position + 7) >> 3);
    return end <= this.#end ? end : undefined;
  }

  #byte(position: number): number {
    return position < this.#end ? (this.#bytes[position] ?? 0) : 0;
  }
}

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

/** RFC 8878 section 4.1.1, from the probability of each symbol; -1 means "less than 1". */
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

/** The next state; consumes its bits. */
export function nextState(table: FseTable, state: number, bits: ReverseBits): number {
  return (table.baselines[state] ?? 0) + bits.read(table.bitCounts[state] ?? 0);
}

function readCounts(bits: ForwardBits, total: number, limits: FseLimits, at: Location): number[] {
  const counts: number[] = [];
  for (let left = total; left > 0; ) {
    // Values 0 … left + 1 are possible. The lowest `short` of them take one bit less.
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

/** Two bits after a probability of 0 say how many more zeros follow. After a 3 come two more such bits. */
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

/** RFC 8878 section 4.2.1: no code of a literal is longer. */
const MAX_CODE_BITS = 11;

/** RFC 8878 section 4.2.1.2: the table allows weights 0 … 12. Codes above MAX_CODE_BITS are refused later. */
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

/** Two states take turns until the bits for the next one run out (RFC 8878 section 4.2.1.2). */
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
    // There are 256 symbols: 255 weights and the implied one. This also ends tables whose states take no bits.
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
