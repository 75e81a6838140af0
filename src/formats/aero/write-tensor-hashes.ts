import type { Bytes } from "../../base/bytes.ts";
import { type AssembledPart, assembledSource } from "../../bytes/assembled.ts";
import type { Extent } from "../../bytes/extents.ts";
import type { WriteContext } from "../../model/format.ts";
import type { Piece } from "../../model/pieces.ts";

/** Below this, starting a worker costs more than the copying thread saves. */
const MIN_BYTES = 64 << 20;

/**
 * True where a worker can hash these tensors from their own files while they are being copied: the bytes are the same
 * and they are in the page cache, so that one core hashes pages and tensors beside the one that hashes whole shards.
 * Sources that only this thread has, such as a URL or a cast, are never read twice.
 */
export function canHashAside(pieces: readonly Piece[]): boolean {
  let byteLength = 0;
  for (const piece of pieces) {
    if (piece.kind !== "tensor") continue;
    if (piece.tensor.source().descriptor === undefined) return false;
    byteLength += piece.tensor.byteLength;
  }
  return byteLength >= MIN_BYTES;
}

/** BLAKE3-256 of runs of the shard that the pieces will be, in the order of the runs. */
export function hashAside(
  pieces: readonly Piece[],
  runs: readonly Extent[],
  { engine, signal }: Pick<WriteContext, "engine" | "signal">,
): Promise<readonly Bytes[]> {
  const parts = pieces.map((piece): AssembledPart => {
    if (piece.kind === "zeros") return { zeros: piece.byteLength };
    if (piece.kind === "bytes") throw new Error("a shard holds tensors and zeros only");
    return { source: piece.tensor.source(), offset: 0, byteLength: piece.tensor.byteLength };
  });
  return engine.digestExtents("blake3", assembledSource(parts, "shard"), runs, { signal });
}
