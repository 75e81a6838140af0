import type { Bytes } from "../../base/bytes.ts";
import { checkGearRule, type Gear, type GearChunker, type GearRule, gearBound } from "./gear.ts";

/** Gear chunking in plain TypeScript: the hash is two 32-bit halves. */
export const gearJavascript: Gear = (rule) => new JavascriptChunker(rule);

/** How many bytes a shifted hash depends on. */
const MEMORY = 64;

class JavascriptChunker implements GearChunker {
  readonly #rule: GearRule;
  readonly #low = new Int32Array(256);
  readonly #high = new Int32Array(256);
  readonly #boundLow: number;
  readonly #boundHigh: number;
  #hashLow = 0;
  #hashHigh = 0;
  #length = 0;

  constructor(rule: GearRule) {
    checkGearRule(rule);
    this.#rule = rule;
    rule.table.forEach((value, i) => {
      this.#low[i] = Number(value & 0xffff_ffffn);
      this.#high[i] = Number(value >> 32n);
    });
    const bound = gearBound(rule);
    this.#boundLow = Number(bound & 0xffff_ffffn);
    this.#boundHigh = Number(bound >> 32n);
  }

  push(piece: Bytes): number[] {
    const { step, minBytes, maxBytes } = this.#rule;
    const cuts: number[] = [];
    let at = 0;
    while (at < piece.byteLength) {
      // Skip bytes that a shifted hash has forgotten by its first test.
      const skipped =
        step === "shift" ? Math.max(0, Math.min(piece.byteLength - at, minBytes - MEMORY - this.#length)) : 0;
      at += skipped;
      this.#length += skipped;
      const stop = Math.min(piece.byteLength, at + maxBytes - this.#length);
      const start = at;
      const testFrom = at + minBytes - 1 - this.#length;
      at =
        step === "shift" ? this.#scanShifted(piece, at, stop, testFrom) : this.#scanRotated(piece, at, stop, testFrom);
      const isCut = at < 0;
      at = Math.abs(at);
      this.#length += at - start;
      if (!isCut && this.#length < maxBytes) continue;
      cuts.push(at);
      this.end();
    }
    return cuts;
  }

  end(): number {
    const length = this.#length;
    this.#length = 0;
    this.#hashLow = 0;
    this.#hashHigh = 0;
    return length;
  }

  /** Returns where it stopped, negated if the byte before ends a chunk. */
  #scanShifted(piece: Bytes, from: number, stop: number, testFrom: number): number {
    const [lows, highs] = [this.#low, this.#high];
    const [boundLow, boundHigh] = [this.#boundLow, this.#boundHigh];
    let [low, high] = [this.#hashLow, this.#hashHigh];
    for (let at = from; at < stop; ) {
      const value = piece[at] as number;
      const entry = lows[value] as number;
      const shifted = low << 1;
      const sum = (shifted + entry) | 0;
      // The carry out of the low half, from the top bits of both summands and of the sum.
      const carry = ((shifted & entry) | ((shifted | entry) & ~sum)) >>> 31;
      high = ((high << 1) + (low >>> 31) + (highs[value] as number) + carry) | 0;
      low = sum;
      at++;
      const top = high >>> 0;
      if (at > testFrom && (top < boundHigh || (top === boundHigh && low >>> 0 < boundLow))) return -at;
    }
    this.#hashLow = low;
    this.#hashHigh = high;
    return stop;
  }

  /** Like #scanShifted, for the other step. */
  #scanRotated(piece: Bytes, from: number, stop: number, testFrom: number): number {
    const [lows, highs] = [this.#low, this.#high];
    const mask = this.#boundLow;
    let [low, high] = [this.#hashLow, this.#hashHigh];
    for (let at = from; at < stop; ) {
      const value = piece[at] as number;
      const entry = lows[value] as number;
      const turned = (low << 1) | (high >>> 31);
      const sum = (turned + entry) | 0;
      const carry = ((turned & entry) | ((turned | entry) & ~sum)) >>> 31;
      high = ((high << 1) + (low >>> 31) + (highs[value] as number) + carry) | 0;
      low = sum;
      at++;
      if (at > testFrom && (low & mask) === 0) return -at;
    }
    this.#hashLow = low;
    this.#hashHigh = high;
    return stop;
  }
}
