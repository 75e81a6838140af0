import { type Bytes, concatBytes, EMPTY_BYTES, equalBytes } from "../../base/bytes.ts";
import { checkRange, type Extent, findGaps } from "../../bytes/extents.ts";
import { checkInto } from "../../bytes/memory.ts";
import type { ReadOptions, Source, StreamOptions } from "../../bytes/source.ts";
import type { RestampPiece } from "../../model/capabilities.ts";

/** Bytes of a file, and the same number of bytes to replace them. */
export interface Patch {
  readonly offset: number;
  readonly before: Bytes;
  readonly after: Bytes;
}

interface PlacedPiece {
  readonly piece: RestampPiece;
  readonly start: number;
  readonly end: number;
}

/** Length of one read while new bytes are compared with old ones. */
const COMPARE_BYTES = 1 << 20;

/** A file made of new bytes and of runs of another one. Closing it does nothing. */
export class SplicedSource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #of: Source;
  readonly #pieces: readonly PlacedPiece[];

  constructor(of: Source, pieces: readonly RestampPiece[]) {
    this.label = of.label;
    this.#of = of;
    let position = 0;
    this.#pieces = pieces.map((piece) => {
      const start = position;
      position += lengthOf(piece);
      return { piece, start, end: position };
    });
    this.byteLength = position;
  }

  /** The place of a run in the original file; undefined if it is not copied in one piece. */
  originOf(offset: number, byteLength: number): number | undefined {
    const found = this.#pieces.find(({ start, end }) => offset >= start && offset + byteLength <= end && offset < end);
    return found?.piece.kind === "copy" ? found.piece.offset + offset - found.start : undefined;
  }

  /** The runs of the old file that are not copied. */
  replaced(): readonly Extent[] {
    const copied = this.#pieces.flatMap(({ piece }) => (piece.kind === "copy" ? [piece] : []));
    return findGaps(copied, this.#of.byteLength);
  }

  /** What has to be written over the old file to make it this one; undefined where copied runs move. */
  async patches(signal?: AbortSignal): Promise<readonly Patch[] | undefined> {
    const moved = this.#pieces.some(
      ({ piece, start }) => piece.kind === "copy" && piece.offset !== start && piece.byteLength > 0,
    );
    if (moved || this.byteLength !== this.#of.byteLength) return undefined;
    const patches: Patch[] = [];
    for (const { piece, start } of this.#pieces) {
      if (piece.kind === "bytes") patches.push(...(await this.#difference(start, piece.bytes, signal)));
    }
    return patches;
  }

  /** At most one run: from the first byte that differs to the last. */
  async #difference(offset: number, after: Bytes, signal: AbortSignal | undefined): Promise<readonly Patch[]> {
    const pieces: Bytes[] = [];
    for (let at = 0; at < after.byteLength; at += COMPARE_BYTES) {
      pieces.push(
        (await this.#of.read(offset + at, Math.min(COMPARE_BYTES, after.byteLength - at), { signal })).slice(),
      );
    }
    const before = concatBytes(pieces);
    if (equalBytes(before, after)) return [];
    let first = 0;
    while (before[first] === after[first]) first++;
    let last = after.byteLength;
    while (before[last - 1] === after[last - 1]) last--;
    return [{ offset: offset + first, before: before.slice(first, last), after: after.slice(first, last) }];
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    checkRange(this.label, this.byteLength, offset, byteLength);
    const { signal } = options;
    const parts: Bytes[] = [];
    const end = offset + byteLength;
    for (const { piece, start, end: pieceEnd } of this.#pieces) {
      const from = Math.max(offset, start);
      const length = Math.min(end, pieceEnd) - from;
      if (length <= 0) continue;
      if (piece.kind === "bytes") parts.push(piece.bytes.subarray(from - start, from - start + length));
      else parts.push(await this.#of.read(piece.offset + from - start, length, { signal }));
    }
    const whole = parts.length === 1 ? (parts[0] ?? EMPTY_BYTES) : concatBytes(parts);
    if (options.into === undefined) return whole;
    checkInto(options.into, byteLength, this.label);
    options.into.set(whole);
    return options.into;
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = options.byteLength ?? this.byteLength - offset;
    checkRange(this.label, this.byteLength, offset, byteLength);
    for (const { piece, start, end } of this.#pieces) {
      const from = Math.max(offset, start);
      const length = Math.min(offset + byteLength, end) - from;
      if (length <= 0) continue;
      if (piece.kind === "bytes") yield piece.bytes.subarray(from - start, from - start + length);
      else yield* this.#of.stream(piece.offset + from - start, { byteLength: length, signal: options.signal });
    }
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

function lengthOf(piece: RestampPiece): number {
  return piece.kind === "bytes" ? piece.bytes.byteLength : piece.byteLength;
}
