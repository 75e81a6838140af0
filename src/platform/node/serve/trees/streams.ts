import type { Bytes } from "../../../../base/bytes.ts";
import type { Source } from "../../../../bytes/source.ts";
import { type FilePart, PIECE_BYTES, type Piece, type PieceBuffers, readPieces } from "../file-body.ts";

/**
 * Files that are streamed at the same time. A stream decodes some chunks ahead of its client, up to 48 MiB, and needs the
 * stored blocks meanwhile.
 */
const MAX_STREAMS = 4;
/** Reads at the same time of the files beyond them: each may hold a chunk, stored and decoded, of up to 64 MiB. */
const MAX_READS = 4;

const NO_BYTES: Bytes = new Uint8Array(0);

/**
 * How many replies read a vault, and how. The first ones get whole chunks as they were decoded, without a copy. All
 * others get pieces of the shared buffers, so that slow clients hold no chunks, however many they are.
 */
export class VaultStreams {
  #streams = 0;
  #reads = 0;
  readonly #waiting: (() => void)[] = [];

  /** The parts of a file in pieces. */
  async *pieces(source: Source, parts: readonly FilePart[], buffers: PieceBuffers): AsyncGenerator<Piece> {
    const byteLength = parts.reduce((sum, part) => sum + part.byteLength, 0);
    if (byteLength <= PIECE_BYTES || this.#streams >= MAX_STREAMS) {
      yield* readPieces(parts, (into, offset) => this.#read(source, into, offset), buffers);
      return;
    }
    this.#streams++;
    try {
      yield* streamParts(source, parts);
    } finally {
      this.#streams--;
    }
  }

  async #read(source: Source, into: Bytes, offset: number): Promise<void> {
    if (this.#reads >= MAX_READS) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#reads++;
    try {
      await source.read(offset, into.byteLength, { into });
    } finally {
      // The next one takes the place over.
      const next = this.#waiting.shift();
      if (next === undefined) this.#reads--;
      else next();
    }
  }
}

/** The bytes of the parts as the source hands them out. */
async function* streamParts(source: Source, parts: readonly FilePart[]): AsyncGenerator<Piece> {
  for (const [i, { prefix, offset, byteLength }] of parts.entries()) {
    let left = byteLength;
    for await (const bytes of source.stream(offset, { byteLength })) {
      const isFirst = left === byteLength;
      left -= bytes.byteLength;
      yield { prefix: isFirst ? prefix : NO_BYTES, bytes, isLast: left === 0 && i === parts.length - 1 };
    }
  }
}
