import type { Bytes } from "../../base/bytes.ts";
import { DeflateBits, DeflateCut } from "./deflate-bits.ts";
import {
  buildCode,
  CODE_LENGTH_ORDER,
  DISTANCE_BASE,
  DISTANCE_EXTRA,
  FIXED_DISTANCES,
  FIXED_LITERALS,
  LENGTH_BASE,
  LENGTH_EXTRA,
  type PrefixCode,
} from "./deflate-codes.ts";
import { DeflateWindow } from "./deflate-window.ts";
import { badDeflate, type Inflate, type InflateOptions, tooLong } from "./inflate.ts";

const END_OF_BLOCK = 256;

/** Raw deflate in plain TypeScript, for hosts without DecompressionStream. */
export const inflateJavascript: Inflate = async function* (pieces, options) {
  const bits = new DeflateBits();
  const steps = new Decoder(bits, options).run();
  for await (const piece of pieces) {
    bits.push(piece);
    yield* drain(steps, options);
  }
  bits.end();
  yield* drain(steps, options);
};

/** What can be decoded now; the decoder asks for more by giving nothing. */
function* drain(steps: Generator<Bytes | undefined>, { at }: InflateOptions): Generator<Bytes> {
  try {
    for (let step = steps.next(); step.done !== true; step = steps.next()) {
      if (step.value === undefined) return;
      yield step.value;
    }
  } catch (error) {
    if (error instanceof DeflateCut) throw badDeflate("it is cut short", at);
    throw error;
  }
}

class Decoder {
  readonly #bits: DeflateBits;
  readonly #options: InflateOptions;
  readonly #window: DeflateWindow;

  constructor(bits: DeflateBits, options: InflateOptions) {
    this.#bits = bits;
    this.#options = options;
    this.#window = new DeflateWindow();
  }

  *run(): Generator<Bytes | undefined> {
    const bits = this.#bits;
    for (let isLast = false; !isLast; ) {
      while (!bits.isReady) yield undefined;
      isLast = bits.take(1) === 1;
      const kind = bits.take(2);
      if (kind === 0) yield* this.#stored();
      else if (kind === 1) yield* this.#coded(FIXED_LITERALS, FIXED_DISTANCES);
      else if (kind === 2) yield* this.#dynamic();
      else throw this.#fault("a block has a type that does not exist");
    }
    yield* this.#flush();
    // Nothing may follow, and only the end of the pieces tells that nothing does.
    for (;;) {
      if (bits.unread > 0) throw this.#fault("something follows behind its end");
      yield undefined;
    }
  }

  *#stored(): Generator<Bytes | undefined> {
    const bits = this.#bits;
    bits.align();
    while (!bits.isReady) yield undefined;
    let left = bits.take(16);
    if ((left ^ bits.take(16)) !== 0xffff) throw this.#fault("the length of a stored block contradicts itself");
    while (left > 0) {
      while (!bits.isReady && bits.unread === 0) yield undefined;
      const piece = bits.bytes(Math.min(left, this.#window.room));
      this.#window.append(piece);
      left -= piece.byteLength;
      if (this.#window.room === 0) yield* this.#flush();
    }
  }

  *#coded(literals: PrefixCode, distances: PrefixCode): Generator<Bytes | undefined> {
    const bits = this.#bits;
    const window = this.#window;
    for (;;) {
      if (!bits.isReady) {
        yield undefined;
        continue;
      }
      const symbol = this.#symbol(literals);
      if (symbol === END_OF_BLOCK) return;
      if (symbol < END_OF_BLOCK) window.put(symbol);
      else this.#match(symbol - END_OF_BLOCK - 1, distances);
      if (window.isFull) yield* this.#flush();
    }
  }

  #match(index: number, distances: PrefixCode): void {
    const bits = this.#bits;
    const base = LENGTH_BASE[index];
    if (base === undefined) throw this.#fault("a length symbol does not exist");
    const length = base + bits.take(LENGTH_EXTRA[index] as number);
    const symbol = this.#symbol(distances);
    const start = DISTANCE_BASE[symbol];
    if (start === undefined) throw this.#fault("a distance symbol does not exist");
    const distance = start + bits.take(DISTANCE_EXTRA[symbol] as number);
    if (!this.#window.repeat(distance, length)) throw this.#fault("a match begins before the first byte");
  }

  /** RFC 1951 §3.2.7. */
  *#dynamic(): Generator<Bytes | undefined> {
    const bits = this.#bits;
    while (!bits.isReady) yield undefined;
    const literals = bits.take(5) + 257;
    const distances = bits.take(5) + 1;
    const count = bits.take(4) + 4;
    if (literals > 286 || distances > 30) throw this.#fault("a block has more codes than there are symbols");
    const order = new Uint8Array(CODE_LENGTH_ORDER.length);
    for (let i = 0; i < count; i++) {
      while (!bits.isReady) yield undefined;
      order[CODE_LENGTH_ORDER[i] as number] = bits.take(3);
    }
    const lengths = new Uint8Array(literals + distances);
    const code = this.#code(order);
    for (let i = 0; i < lengths.length; ) {
      while (!bits.isReady) yield undefined;
      i = this.#lengthStep(code, lengths, i);
    }
    if (lengths[END_OF_BLOCK] === 0) throw this.#fault("a block has no code for its end");
    yield* this.#coded(this.#code(lengths.subarray(0, literals)), this.#code(lengths.subarray(literals)));
  }

  /** One symbol of the code for lengths: a length, or a run of the last one or of zeros. Gives where the next goes. */
  #lengthStep(code: PrefixCode, lengths: Uint8Array, at: number): number {
    const symbol = this.#symbol(code);
    if (symbol < 16) {
      lengths[at] = symbol;
      return at + 1;
    }
    if (symbol === 16 && at === 0) throw this.#fault("a length repeats none");
    const value = symbol === 16 ? (lengths[at - 1] as number) : 0;
    const count = symbol === 18 ? 11 + this.#bits.take(7) : 3 + this.#bits.take(symbol === 16 ? 2 : 3);
    if (at + count > lengths.length) throw this.#fault("there are more lengths than codes");
    lengths.fill(value, at, at + count);
    return at + count;
  }

  #code(lengths: Uint8Array): PrefixCode {
    const code = buildCode(lengths);
    if (code === undefined) throw this.#fault("lengths describe no prefix code");
    return code;
  }

  #symbol(code: PrefixCode): number {
    const symbol = this.#bits.symbol(code);
    if (symbol === undefined) throw this.#fault("bits are no code");
    return symbol;
  }

  *#flush(): Generator<Bytes> {
    const piece = this.#window.take();
    if (this.#window.total > this.#options.maxBytes) throw tooLong(this.#options.maxBytes, this.#options.at);
    if (piece.byteLength > 0) yield piece;
  }

  #fault(problem: string): Error {
    return badDeflate(problem, this.#options.at);
  }
}
