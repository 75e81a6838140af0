import type { Bytes } from "../../../base/bytes.ts";
import type { Extent } from "../../../bytes/extents.ts";
import type { GearChunker } from "../../../primitives/chunking/gear.ts";

/**
 * Cuts one file, piece by piece, into chunks: every region begins a chunk of its own, and inside a region the content
 * decides. Without regions the whole stream is one, of any length.
 */
export class ChunkCutter {
  readonly #gear: GearChunker;
  readonly #regions: readonly Extent[];
  #region = 0;
  /** Bytes of the present region that came already. */
  #inRegion = 0;
  /** Bytes of the present chunk that came already. */
  #inChunk = 0;

  constructor(gear: GearChunker, regions: readonly Extent[] = []) {
    this.#gear = gear;
    this.#regions = regions;
  }

  /** Takes the next piece: the lengths of the chunks that end in it. */
  push(piece: Bytes): number[] {
    const lengths: number[] = [];
    let rest = piece;
    while (rest.byteLength > 0) {
      const left = (this.#regions[this.#region]?.byteLength ?? Number.POSITIVE_INFINITY) - this.#inRegion;
      const part = rest.byteLength > left ? rest.subarray(0, left) : rest;
      this.#take(part, lengths);
      if (part.byteLength === left) this.#endRegion(lengths);
      rest = rest.subarray(part.byteLength);
    }
    return lengths;
  }

  /** Ends the stream: the length of the chunk that was going on, where one was. */
  end(): number[] {
    const lengths: number[] = [];
    this.#endRegion(lengths);
    this.#region = 0;
    return lengths;
  }

  #take(part: Bytes, lengths: number[]): void {
    let start = 0;
    for (const end of this.#gear.push(part)) {
      lengths.push(this.#inChunk + end - start);
      this.#inChunk = 0;
      start = end;
    }
    this.#inChunk += part.byteLength - start;
    this.#inRegion += part.byteLength;
  }

  #endRegion(lengths: number[]): void {
    const last = this.#gear.end();
    if (last > 0) lengths.push(last);
    this.#region++;
    this.#inRegion = 0;
    this.#inChunk = 0;
  }
}
