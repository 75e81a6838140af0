import { type Bytes, concatBytes } from "../../base/bytes.ts";
import type { Hasher, SegmentedDigest } from "../engine.ts";
import { BLAKE3_CHUNK_BYTES, BLAKE3_CV_BYTES, type Blake3Core, Blake3Hasher, plainDomain } from "./blake3.ts";

/**
 * BLAKE3 of runs of one input, each hashed by itself: a chunk's chaining value depends on its number and on nothing before
 * it (BLAKE3 paper §2.4). A segment gives how many chunks it has in complete subtrees, their roots, and its last bytes, of
 * which only the end of the input tells how they are hashed.
 */
export function segmentedBlake3(core: Blake3Core): SegmentedDigest {
  return {
    segment: (at) => new SegmentHasher(core, at / BLAKE3_CHUNK_BYTES),
    join: (segments) => joinSegments(core, segments),
  };
}

/** In front of the roots: the number of chunks below them. */
const COUNT_BYTES = 8;

class SegmentHasher implements Hasher {
  readonly #hasher: Blake3Hasher;

  constructor(core: Blake3Core, firstChunk: number) {
    this.#hasher = new Blake3Hasher(core, plainDomain(), firstChunk);
  }

  update(bytes: Bytes): void {
    this.#hasher.update(bytes);
  }

  digest(): Bytes {
    const { chunkCount, roots, tail } = this.#hasher.subtrees();
    const count = new Uint8Array(COUNT_BYTES);
    new DataView(count.buffer).setFloat64(0, chunkCount);
    return concatBytes([count, roots, tail]);
  }
}

function joinSegments(core: Blake3Core, segments: readonly Bytes[]): Bytes {
  const joined = new Blake3Hasher(core, plainDomain());
  let first = 0;
  for (const segment of segments) {
    const chunkCount = new DataView(segment.buffer, segment.byteOffset).getFloat64(0);
    const rootsEnd = COUNT_BYTES + countSubtrees(first, chunkCount) * BLAKE3_CV_BYTES;
    joined.append(chunkCount, segment.subarray(COUNT_BYTES, rootsEnd));
    joined.update(segment.subarray(rootsEnd));
    // Every segment but the last ends with a whole chunk that waits.
    first += chunkCount + 1;
  }
  return joined.digest();
}

/** Complete subtrees that cover so many chunks from `first` on: each as large as its place allows. */
function countSubtrees(first: number, chunkCount: number): number {
  const end = first + chunkCount;
  let count = 0;
  for (let at = first; at < end; count++) {
    let size = 1;
    while (at % (2 * size) === 0 && at + 2 * size <= end) size *= 2;
    at += size;
  }
  return count;
}
