import type { Location } from "../../base/errors.ts";
import { frameFault } from "./zstd.ts";
import {
  buildFseTable,
  decodeFseTable,
  type FseLimits,
  type FseTable,
  nextState,
  ReverseBits,
  type Run,
  singleSymbolTable,
} from "./zstd-entropy.ts";

/** Receives the sequences of a block: copy `count` literals, then `byteLength` bytes from `offset` before the end. */
export interface SequenceTarget {
  addLiterals(count: number): void;
  addMatch(offset: number, byteLength: number): void;
}

/** A kind of code: the limits of its table, and the table to use if the block sends none. */
interface CodeKind {
  readonly name: string;
  readonly limits: FseLimits;
  readonly predefined: FseTable;
}

const NOWHERE: Location = { source: "zstd" };

// Default distributions: RFC 8878 section 3.1.1.3.2.2.
const LITERAL_LENGTHS: CodeKind = {
  name: "literal lengths",
  limits: { maxAccuracyLog: 9, maxSymbol: 35 },
  predefined: buildFseTable(
    [4, 3, ...times(11, 2), 1, 1, 1, ...times(9, 2), 3, 2, ...times(5, 1), ...times(4, -1)],
    6,
    NOWHERE,
  ),
};
const OFFSETS: CodeKind = {
  name: "offsets",
  limits: { maxAccuracyLog: 8, maxSymbol: 31 },
  predefined: buildFseTable([...times(6, 1), 2, 2, 2, ...times(15, 1), ...times(5, -1)], 5, NOWHERE),
};
const MATCH_LENGTHS: CodeKind = {
  name: "match lengths",
  limits: { maxAccuracyLog: 9, maxSymbol: 52 },
  predefined: buildFseTable([1, 4, 3, ...times(6, 2), ...times(37, 1), ...times(7, -1)], 6, NOWHERE),
};

// Extra bits of each code, RFC 8878 section 3.1.1.3.2.1.1. Where a code's numbers start follows from the codes before
// it.
const LITERAL_BITS = [...times(16, 0), 1, 1, 1, 1, 2, 2, 3, 3, 4, ...upTo(6, 16)];
const MATCH_BITS = [...times(32, 0), 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, ...upTo(7, 16)];
const LITERAL_STARTS = startsOf(LITERAL_BITS, 0);
const MATCH_STARTS = startsOf(MATCH_BITS, 3);

/** Reads the sequences of one block after another; tables and recent offsets carry over within a frame. */
export class SequencesDecoder {
  #literals: FseTable | undefined;
  #offsets: FseTable | undefined;
  #matches: FseTable | undefined;
  /** RFC 8878 section 3.1.1.5: the last three offsets, newest first. A frame starts with these values. */
  #recent: [number, number, number] = [1, 4, 8];

  /** RFC 8878 section 3.1.1.3.2; the run is the rest of the block. */
  decode(run: Run, target: SequenceTarget, at: Location): void {
    const { count, end: headerEnd } = decodeCount(run, at);
    if (count === 0) {
      if (headerEnd !== run.end) throw frameFault("a block without sequences must end after their count", at);
      return;
    }
    const modes = headerEnd < run.end ? (run.bytes[headerEnd] ?? 0) : 3;
    if ((modes & 3) !== 0) throw frameFault("the reserved bits of the sequence modes must be 0", at);
    let start = headerEnd + 1;
    const take = (kind: CodeKind, mode: number, last: FseTable | undefined): FseTable => {
      const { table, end } = decodeTable(kind, mode, { ...run, start }, { last, at });
      start = end;
      return table;
    };
    this.#literals = take(LITERAL_LENGTHS, modes >> 6, this.#literals);
    this.#offsets = take(OFFSETS, (modes >> 4) & 3, this.#offsets);
    this.#matches = take(MATCH_LENGTHS, (modes >> 2) & 3, this.#matches);
    const bits = new ReverseBits(run.bytes, start, run.end, at);
    this.#run(count, bits, [this.#literals, this.#offsets, this.#matches], target);
    if (bits.left !== 0) throw frameFault("the sequences of a block must end with their last bit", at);
  }

  #run(count: number, bits: ReverseBits, tables: readonly [FseTable, FseTable, FseTable], to: SequenceTarget): void {
    const [literals, offsets, matches] = tables;
    let literalState = bits.read(literals.accuracyLog);
    let offsetState = bits.read(offsets.accuracyLog);
    let matchState = bits.read(matches.accuracyLog);
    for (let i = 0; i < count && bits.left >= 0; i++) {
      const offsetCode = offsets.symbols[offsetState] ?? 0;
      const matchCode = matches.symbols[matchState] ?? 0;
      const literalCode = literals.symbols[literalState] ?? 0;
      const offsetValue = 2 ** offsetCode + bits.read(offsetCode);
      const matchLength = (MATCH_STARTS[matchCode] ?? 0) + bits.read(MATCH_BITS[matchCode] ?? 0);
      const literalLength = (LITERAL_STARTS[literalCode] ?? 0) + bits.read(LITERAL_BITS[literalCode] ?? 0);
      if (i < count - 1) {
        literalState = nextState(literals, literalState, bits);
        matchState = nextState(matches, matchState, bits);
        offsetState = nextState(offsets, offsetState, bits);
      }
      if (bits.left < 0) return; // the caller sees that the bits ran out
      to.addLiterals(literalLength);
      to.addMatch(this.#offsetOf(offsetValue, literalLength), matchLength);
    }
  }

  /** Values 1 … 3 name a recent offset. Without literals, 1 and 2 name the next older one, and 3 the newest less 1. */
  #offsetOf(value: number, literalLength: number): number {
    const [first, second, third] = this.#recent;
    if (value > 3) {
      this.#recent = [value - 3, first, second];
      return value - 3;
    }
    const index = literalLength === 0 ? value : value - 1;
    if (index === 0) return first;
    const offset = index === 1 ? second : index === 2 ? third : first - 1;
    this.#recent = index === 1 ? [offset, first, third] : [offset, first, second];
    return offset;
  }
}

/** One to three bytes (RFC 8878 section 3.1.1.3.2.1). */
function decodeCount(run: Run, at: Location): { readonly count: number; readonly end: number } {
  const byte = (i: number): number => run.bytes[run.start + i] ?? 0;
  const first = byte(0);
  const headerBytes = first < 128 ? 1 : first < 255 ? 2 : 3;
  const end = run.start + headerBytes;
  if (end > run.end) throw frameFault("a block must hold the count of its sequences", at);
  if (headerBytes === 1) return { count: first, end };
  const count = headerBytes === 2 ? ((first - 128) << 8) + byte(1) : byte(1) + (byte(2) << 8) + 0x7f00;
  return { count, end };
}

function decodeTable(
  kind: CodeKind,
  mode: number,
  run: Run,
  context: { readonly last: FseTable | undefined; readonly at: Location },
): { readonly table: FseTable; readonly end: number } {
  const { last, at } = context;
  switch (mode) {
    case 0:
      return { table: kind.predefined, end: run.start };
    case 1: {
      const symbol = run.start < run.end ? (run.bytes[run.start] ?? 0) : 256;
      if (symbol > kind.limits.maxSymbol) throw frameFault(`${kind.name} must be <= ${kind.limits.maxSymbol}`, at);
      return { table: singleSymbolTable(symbol), end: run.start + 1 };
    }
    case 2:
      return decodeFseTable(run, kind.limits, at);
    default:
      if (last === undefined) throw frameFault(`${kind.name} must follow some that have a table`, at);
      return { table: last, end: run.start };
  }
}

function times(count: number, value: number): number[] {
  return new Array<number>(count).fill(value);
}

function upTo(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, i) => first + i);
}

function startsOf(bits: readonly number[], first: number): readonly number[] {
  let start = first;
  return bits.map((count) => {
    const own = start;
    start += 2 ** count;
    return own;
  });
}
