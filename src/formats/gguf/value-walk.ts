import { FormatError, type Location } from "../../base/errors.ts";
import { toOffset } from "../../base/integers.ts";
import { checkLimit } from "../../base/limits.ts";
import { ARRAY_ID, ARRAY_MIN_BYTES, minElementBytes, STRING_ID, STRING_MIN_BYTES, VALUE_BYTES } from "./layout.ts";
import type { GgufLimits } from "./limits.ts";

/** Bytes of which a beginning is here: a header that is still arriving, or a value that is complete. */
export interface Walkable {
  readonly view: DataView<ArrayBuffer>;
  readonly littleEndian: boolean;
  /** How many bytes, from 0, can be read now. */
  readonly filled: number;
  /** Throws where `byteLength` bytes at `offset` reach beyond what there will ever be. */
  checkRoom(offset: number, byteLength: number, path: () => string): void;
  at(offset: number, path: string): Location;
}

/** Elements of one type that are still to be walked over. */
interface Frame {
  readonly type: number;
  readonly count: number;
  left: number;
}

/** Decoding nested arrays recurses, so that no limit may go beyond what a stack holds with ease. */
const MAX_DEPTH = 1000;

export type WalkLimits = Pick<GgufLimits, "stringBytes" | "arrayDepth">;

/**
 * Finds where a value ends, checking every length on the way and decoding nothing. Arrays of arrays go on an
 * explicit stack of bounded height, so that the walk can stop where bytes are missing and go on when they are here.
 */
export class ValueWalk {
  readonly #bytes: Walkable;
  readonly #limits: WalkLimits;
  readonly #path: string;
  readonly #frames: Frame[];
  #position: number;

  /** `position` is where the value begins, behind its type id; `path` is the specification's name for it. */
  constructor(bytes: Walkable, start: { type: number; position: number; path: string }, limits: WalkLimits) {
    this.#bytes = bytes;
    this.#limits = limits;
    this.#path = start.path;
    this.#position = start.position;
    this.#frames = [
      { type: this.#checkType(start.type, start.position - 4, () => `${start.path}_type`), count: 1, left: 1 },
    ];
  }

  /** Where the walk stands; the end of the value once `advance` has returned 0. */
  get position(): number {
    return this.#position;
  }

  get path(): string {
    return this.#path;
  }

  /** Walks as far as the bytes reach. Returns how many are needed at `position` to go on: 0 means done. */
  advance(): number {
    for (let frame = this.#frames.at(-1); frame !== undefined; frame = this.#frames.at(-1)) {
      if (frame.left === 0) {
        this.#frames.pop();
        continue;
      }
      const needed =
        frame.type === STRING_ID
          ? this.#strings(frame)
          : frame.type === ARRAY_ID
            ? this.#array(frame)
            : this.#plain(frame);
      if (needed > 0) return needed;
    }
    return 0;
  }

  /** Values of fixed size are passed over at once, whether they are here yet or not. */
  #plain(frame: Frame): number {
    const byteLength = frame.left * (VALUE_BYTES[frame.type] as number);
    this.#bytes.checkRoom(this.#position, byteLength, () => this.#here());
    this.#position += byteLength;
    frame.left = 0;
    return 0;
  }

  /** The loop that a vocabulary of 400 000 strings goes through: no call, no allocation per string. */
  #strings(frame: Frame): number {
    const { view, littleEndian, filled } = this.#bytes;
    const lowAt = littleEndian ? 0 : 4;
    const last = filled - STRING_MIN_BYTES;
    const longest = this.#limits.stringBytes;
    let position = this.#position;
    let left = frame.left;
    while (left > 0 && position <= last) {
      const low = view.getUint32(position + lowAt, littleEndian);
      const high = view.getUint32(position + 4 - lowAt, littleEndian);
      let length = low;
      if (high !== 0 || low > longest || low > filled - STRING_MIN_BYTES - position) {
        this.#position = position;
        frame.left = left; // messages count from it
        length = this.#checkString(low, high);
      }
      position += STRING_MIN_BYTES + length;
      left--;
    }
    this.#position = position;
    frame.left = left;
    return left > 0 ? STRING_MIN_BYTES : 0;
  }

  /** A length that reaches beyond what is here: fine if the file goes on far enough. */
  #checkString(low: number, high: number): number {
    const position = this.#position;
    const path = (): string => `${this.#here()}.len`;
    const length = high === 0 ? low : toOffset(low, high, this.#bytes.at(position, path()));
    this.#bytes.checkRoom(position + STRING_MIN_BYTES, length, path);
    const at = this.#bytes.at(position, path());
    checkLimit(length, this.#limits.stringBytes, "a string of so many bytes", "limit/gguf.string-bytes", at);
    return length;
  }

  #array(frame: Frame): number {
    const position = this.#position;
    const { view, littleEndian, filled } = this.#bytes;
    if (position + ARRAY_MIN_BYTES > filled) return ARRAY_MIN_BYTES;
    const depth = this.#frames.length;
    const deepest = Math.min(this.#limits.arrayDepth, MAX_DEPTH);
    if (depth > deepest) {
      const at = this.#bytes.at(position, this.#here());
      checkLimit(depth, deepest, "arrays nested to this depth", "limit/gguf.array-depth", at);
    }
    const type = this.#checkType(view.getUint32(position, littleEndian), position, () => `${this.#here()}.type`);
    const low = view.getUint32(position + (littleEndian ? 4 : 8), littleEndian);
    const high = view.getUint32(position + (littleEndian ? 8 : 4), littleEndian);
    const path = (): string => `${this.#here()}.len`;
    const count = high === 0 ? low : toOffset(low, high, this.#bytes.at(position + 4, path()));
    // Every element takes bytes, so a count that the file cannot hold ends here, before the first one.
    this.#bytes.checkRoom(position + ARRAY_MIN_BYTES, count * (minElementBytes(type) as number), path);
    this.#position = position + ARRAY_MIN_BYTES;
    frame.left--;
    this.#frames.push({ type, count, left: count });
    return 0;
  }

  #checkType(type: number, offset: number, locate: () => string): number {
    if (minElementBytes(type) !== undefined) return type;
    const path = locate();
    const message = `Cannot read GGUF metadata: ${path} must be 0 to 12, found ${type}`;
    throw new FormatError("format/gguf.value-type", message, this.#bytes.at(offset, path), {
      hint: "The file is damaged, or newer than this tool",
    });
  }

  /** "metadata_kv[3].value.array[17]": only put together for messages. */
  #here(): string {
    let path = this.#path;
    for (const [level, { count, left }] of this.#frames.entries()) {
      // A frame above another one counts its element as begun.
      const index = count - left - (level < this.#frames.length - 1 ? 1 : 0);
      if (level > 0) path += `.array[${index}]`;
    }
    return path;
  }
}
