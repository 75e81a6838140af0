import type { Bytes } from "../../base/bytes.ts";
import type { Extent } from "../../bytes/extents.ts";
import type { PagedRun } from "../../model/format.ts";

/** Length of pieces without pages: the most that a killed pull may have to fetch again. */
export const PIECE_BYTES = 4 << 20;
/**
 * Most pieces without pages, approximately. A server may claim any length, and dividing 2^53 bytes into pieces of 4 MiB
 * would take all memory and never end. From 4 TiB on, pieces get longer instead.
 */
const MAX_PLAIN_PIECES = 1 << 20;
/**
 * Pages below this are recorded together, so that tiny ones do not each cost a write. It is less than the buffers of a
 * connection.
 */
const GROUP_BYTES = 256 << 10;
/** A BLAKE3 digest. */
export const DIGEST_BYTES = 32;

/** What is fetched, checked and recorded at once: one page, several tiny ones, or a run without digests. */
export interface Piece extends Extent {
  readonly pages?: { readonly pageBytes: number; readonly digests: Bytes } | undefined;
}

/** Divides a file into pieces, in order and without gaps. Runs that overlap an earlier one count as without digests. */
export function planPieces(byteLength: number, runs: readonly PagedRun[]): Piece[] {
  const pieces: Piece[] = [];
  let position = 0;
  const pieceBytes = PIECE_BYTES * Math.max(1, Math.ceil(byteLength / PIECE_BYTES / MAX_PLAIN_PIECES));
  const plainTo = (end: number): void => {
    for (; position < end; position += pieceBytes) {
      pieces.push({ offset: position, byteLength: Math.min(pieceBytes, end - position) });
    }
    position = end;
  };
  for (const run of [...runs].sort((a, b) => a.offset - b.offset)) {
    if (run.offset < position || run.offset + run.byteLength > byteLength) continue;
    plainTo(run.offset);
    // One by one, because a long shard has more pages than a call can have arguments.
    for (const piece of pagedPieces(run)) pieces.push(piece);
    position = run.offset + run.byteLength;
  }
  plainTo(byteLength);
  return pieces;
}

function pagedPieces({ offset, byteLength, pageBytes, digests }: PagedRun): Piece[] {
  const pieces: Piece[] = [];
  const pagesEach = Math.max(1, Math.floor(GROUP_BYTES / pageBytes));
  const step = pagesEach * pageBytes;
  for (let start = 0, first = 0; start < byteLength; start += step, first += pagesEach) {
    const own = digests.subarray(first * DIGEST_BYTES, (first + pagesEach) * DIGEST_BYTES);
    const length = Math.min(step, byteLength - start);
    pieces.push({ offset: offset + start, byteLength: length, pages: { pageBytes, digests: own } });
  }
  return pieces;
}

/** The runs of a piece that are hashed: its pages, or all of it. */
export function hashedExtents({ offset, byteLength, pages }: Piece): Extent[] {
  const step = pages?.pageBytes ?? byteLength;
  const extents: Extent[] = [];
  for (let start = 0; start < byteLength; start += step) {
    extents.push({ offset: offset + start, byteLength: Math.min(step, byteLength - start) });
  }
  return extents;
}
