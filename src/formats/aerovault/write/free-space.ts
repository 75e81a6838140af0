import { type Extent, findGaps } from "../../../bytes/extents.ts";
import { blockExtent } from "../blocks/check.ts";
import { HEADER_BYTES } from "../layout.ts";
import type { ChunkRecord } from "../manifest/records.ts";

/** Gaps to search for every block: more would cost more time than the room is worth. */
const MAX_GAPS = 64;
/** Shorter gaps are too short for most blocks, so they are not tracked. */
const LEAST_GAP_BYTES = 4096;

/** What must not change until the new header is in place, because the current one refers to it. */
export interface Generation {
  readonly records: Iterable<ChunkRecord>;
  /** Manifest, extension directory and payload, at their places in the file. */
  readonly sections: readonly Extent[];
}

/** Where new bytes may go: into gaps and after the end, or only after the end. */
export type RoomPolicy = "gaps" | "tail";

/**
 * Places new bytes of a vault so that a crash at any moment leaves the current generation whole: into room that it does
 * not use, and after its end. The sections always come after the blocks: the data section is one run from the header
 * on, so unused bytes between blocks belong to it, as gaps that a later change can use.
 */
export class SpacePlan {
  /** Free runs between used ones, by offset. */
  readonly #gaps: { offset: number; end: number }[];
  #dataEnd = HEADER_BYTES;
  /** The end of everything, old and new. Other threads move it too, if memory can be shared. */
  readonly #end: TailMemory;

  constructor(generation: Generation, room: RoomPolicy = "gaps") {
    const used: Extent[] = [{ offset: 0, byteLength: HEADER_BYTES }, ...generation.sections];
    for (const record of generation.records) used.push(blockExtent(record));
    const end = used.reduce((last, extent) => Math.max(last, extent.offset + extent.byteLength), HEADER_BYTES);
    this.#end = makeTail(end);
    this.#gaps = (room === "tail" ? [] : findGaps(used, end))
      .filter((gap) => gap.byteLength >= LEAST_GAP_BYTES)
      .sort((a, b) => b.byteLength - a.byteLength)
      .slice(0, MAX_GAPS)
      .sort((a, b) => a.offset - b.offset)
      .map((gap) => ({ offset: gap.offset, end: gap.offset + gap.byteLength }));
  }

  /** The first byte after everything that is written so far. */
  get end(): number {
    return Number(Atomics.load(this.#end, 0));
  }

  /** Other threads take room at the end through this with `takeTail`; undefined if memory cannot be shared. */
  get sharedTail(): SharedTail | undefined {
    return isShared(this.#end) ? this.#end : undefined;
  }

  /** Finds room for a block with its prefix; returns its offset in the file. */
  placeBlock(byteLength: number): number {
    const gap = this.#gaps.find((one) => one.end - one.offset >= byteLength);
    const offset = gap?.offset ?? takeTail(this.#end, byteLength);
    if (gap !== undefined) gap.offset += byteLength;
    this.#dataEnd = Math.max(this.#dataEnd, offset + byteLength);
    return offset;
  }

  /** Keeps a block: one of the current generation, or one that another thread placed. */
  keepBlock(record: ChunkRecord): void {
    const { offset, byteLength } = blockExtent(record);
    this.#dataEnd = Math.max(this.#dataEnd, offset + byteLength);
  }

  /** The end of the data section, with all blocks that were placed or kept. */
  get dataEnd(): number {
    return this.#dataEnd;
  }

  /** Finds room for the sections after the data section, in one run after its end. */
  placeSections(byteLength: number): number {
    for (const gap of this.#gaps) {
      const offset = Math.max(gap.offset, this.#dataEnd);
      if (gap.end - offset >= byteLength) return offset;
    }
    return takeTail(this.#end, byteLength);
  }
}

/** The end of a draft's file, in memory that threads share. */
export type SharedTail = BigInt64Array<SharedArrayBuffer>;
type TailMemory = BigInt64Array<ArrayBuffer> | SharedTail;

/** Takes room at the end of a draft; returns its start. */
export function takeTail(tail: TailMemory, byteLength: number): number {
  return Number(Atomics.add(tail, 0, BigInt(byteLength)));
}

function makeTail(end: number): TailMemory {
  const tail =
    typeof SharedArrayBuffer === "undefined" ? new BigInt64Array(1) : new BigInt64Array(new SharedArrayBuffer(8));
  tail[0] = BigInt(end);
  return tail;
}

function isShared(tail: TailMemory): tail is SharedTail {
  return typeof SharedArrayBuffer !== "undefined" && tail.buffer instanceof SharedArrayBuffer;
}
