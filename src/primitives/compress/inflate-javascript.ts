import { type Bytes, concatBytes, EMPTY_BYTES } from "../../base/bytes.ts";
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

/** The output that can be decoded now. The decoder yields undefined to ask for more input. */
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
    // Nothing may follow. Only the end of the pieces shows that nothing does.
    for (;;) {
      if (bits.unread > 0) throw this.#fault("something follows its end");
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

  /** One symbol of the code for lengths: a length, or a run of the last one or of zeros. Returns the next index. */
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

/** How far a match may reach back (RFC 1951 §2). */
const HISTORY_BYTES = 32 << 10;
/** How much is decoded before it is handed out. */
const PIECE_BYTES = 64 << 10;
/** The longest match. One may begin when the piece has room for a single byte. */
const MAX_MATCH_BYTES = 258;

/** The last 32 KiB of output, and the output that was not yet handed out. */
class DeflateWindow {
  readonly #bytes: Bytes = new Uint8Array(HISTORY_BYTES + PIECE_BYTES + MAX_MATCH_BYTES);
  #end = 0;
  #taken = 0;
  #total = 0;

  /** Bytes decoded so far. */
  get total(): number {
    return this.#total;
  }

  get isFull(): boolean {
    return this.#end - this.#taken >= PIECE_BYTES;
  }

  /** Bytes that fit before the piece is full. */
  get room(): number {
    return PIECE_BYTES - (this.#end - this.#taken);
  }

  put(byte: number): void {
    this.#bytes[this.#end++] = byte;
    this.#total++;
  }

  append(bytes: Bytes): void {
    this.#bytes.set(bytes, this.#end);
    this.#end += bytes.byteLength;
    this.#total += bytes.byteLength;
  }

  /**
   * Repeats bytes from `distance` back; source and target may overlap. False if the output does not reach so far back.
   */
  repeat(distance: number, length: number): boolean {
    if (distance > this.#end) return false;
    const bytes = this.#bytes;
    let end = this.#end;
    for (const stop = end + length; end < stop; end++) bytes[end] = bytes[end - distance] as number;
    this.#end = end;
    this.#total += length;
    return true;
  }

  /** A copy of the output that was not yet handed out. */
  take(): Bytes {
    const piece = this.#bytes.slice(this.#taken, this.#end);
    if (this.#end > HISTORY_BYTES) {
      this.#bytes.copyWithin(0, this.#end - HISTORY_BYTES, this.#end);
      this.#end = HISTORY_BYTES;
    }
    this.#taken = this.#end;
    return piece;
  }
}

/** More than any step of the decoder reads before it asks again: two codes with their extra bits are 48 bits. */
const AHEAD_BYTES = 8;

/** The stream ended in the middle of a code. */
class DeflateCut extends Error {}

/** Bits of a stream that comes in pieces, the lowest bit of each byte first (RFC 1951 §3.1.1). */
class DeflateBits {
  #bytes: Bytes = EMPTY_BYTES;
  #position = 0;
  #hold = 0;
  #held = 0;
  #isEnded = false;

  /** True if the decoder can take a step without more input. */
  get isReady(): boolean {
    return this.#isEnded || this.#bytes.byteLength - this.#position >= AHEAD_BYTES;
  }

  /** Bytes not yet read. */
  get unread(): number {
    return this.#bytes.byteLength - this.#position + (this.#held >>> 3);
  }

  push(piece: Bytes): void {
    this.#bytes = concatBytes([this.#bytes.subarray(this.#position), piece]);
    this.#position = 0;
  }

  end(): void {
    this.#isEnded = true;
  }

  /** The next bits as a number, at most 16. */
  take(count: number): number {
    while (this.#held < count) this.#fill();
    const value = this.#hold & ((1 << count) - 1);
    this.#hold >>>= count;
    this.#held -= count;
    return value;
  }

  /** The next symbol of a code; undefined if the bits match none. */
  symbol({ table, bits }: PrefixCode): number | undefined {
    while (this.#held < bits && this.#position < this.#bytes.byteLength) this.#fill();
    const found = table[this.#hold & ((1 << bits) - 1)] as number;
    const length = found & 15;
    if (length === 0) return undefined;
    if (length > this.#held) throw new DeflateCut();
    this.#hold >>>= length;
    this.#held -= length;
    return found >>> 4;
  }

  /** Skips to the next whole byte, where stored blocks begin. */
  align(): void {
    const rest = this.#held & 7;
    this.#hold >>>= rest;
    this.#held -= rest;
  }

  /** A view of up to `most` whole bytes. Call it only at a whole byte. */
  bytes(most: number): Bytes {
    if (this.#held > 0) {
      this.#position -= this.#held >>> 3;
      this.#hold = 0;
      this.#held = 0;
    }
    const start = this.#position;
    this.#position = Math.min(start + most, this.#bytes.byteLength);
    if (this.#position === start && this.#isEnded) throw new DeflateCut();
    return this.#bytes.subarray(start, this.#position);
  }

  #fill(): void {
    if (this.#position >= this.#bytes.byteLength) throw new DeflateCut();
    this.#hold |= (this.#bytes[this.#position++] as number) << this.#held;
    this.#held += 8;
  }
}
