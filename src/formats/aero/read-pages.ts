import { FormatError } from "../../base/errors.ts";
import { checkLimit } from "../../base/limits.ts";
import { checkChunkHash, checkChunkSize, readChunk } from "./chunk.ts";
import { decodePhsh, type PageHashes } from "./chunks/phsh.ts";
import type { ShardContext } from "./shards.ts";
import { type Chunk, chunkAt, chunkTitle, isCompressed } from "./toc.ts";

/** Reads and decodes a PHSH chunk; refuses one that is compressed, damaged or does not fit its shard. */
export async function readPages(context: ShardContext, pages: Chunk, shardBytes: number): Promise<PageHashes> {
  const { label, source, preloaded } = context;
  if (isCompressed(pages)) {
    const message = `Cannot read ${chunkTitle(pages)}: must be stored raw, found the flag COMPRESSED_ZSTD`;
    throw new FormatError("format/aero.compressed", message, chunkAt(label, pages));
  }
  const stored = preloaded.get(pages);
  const content = stored === undefined ? await readChunk(source, pages, context) : stored;
  if (stored !== undefined) {
    checkChunkSize(pages, context);
    await checkChunkHash(pages, stored, context);
  }
  return decodePhsh(content, { label, offset: pages.offset }, shardBytes);
}

/** A page is held whole until it has been checked. */
export function checkPageBytes({ pageBytes }: PageHashes, pages: Chunk, { label, limits }: ShardContext): void {
  const at = { ...chunkAt(label, pages), path: "phsh.page_size" };
  checkLimit(pageBytes, limits.verifyBytes, "pages of so many bytes", "limit/aero.verify-bytes", at);
}
