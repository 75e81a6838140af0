import { type Bytes, equalBytes } from "../../../base/bytes.ts";
import { FormatError, IntegrityError, isTareError, reviveError } from "../../../base/errors.ts";
import { checkLimit } from "../../../base/limits.ts";
import { encodeHex } from "../../../base/text.ts";
import { type Extent, planBatches } from "../../../bytes/extents.ts";
import { OPENING_BYTES } from "../../../bytes/layers/opening-read.ts";
import type { Source } from "../../../bytes/source.ts";
import type { Engine } from "../../../primitives/engine.ts";
import { FOURCC } from "../layout.ts";
import type { AeroLimits } from "../limits.ts";
import { type Chunk, chunkAt, chunkTitle, isCompressed, type Toc } from "./toc.ts";

/** Chunks that must be stored raw (spec, "Chunk Types"). */
const RAW: readonly string[] = [FOURCC.weights, FOURCC.control, FOURCC.pages];

/** What reading a metadata chunk needs besides the chunk. */
export interface ChunkContext {
  readonly toc: Toc;
  readonly label: string;
  readonly engine: Engine;
  readonly limits: AeroLimits;
  readonly signal?: AbortSignal | undefined;
}

/** Refuses a metadata chunk by its declared size, before it is read. */
export function checkChunkSize(chunk: Chunk, { label, limits }: ChunkContext): void {
  const at = { ...chunkAt(label, chunk), path: `toc[${chunk.index}].chunk_ulen` };
  const larger = Math.max(chunk.ulen, chunk.byteLength);
  const what = `${chunkTitle(chunk)} of this many bytes`;
  checkLimit(larger, limits.metadataBytes, what, "limit/aero.metadata-bytes", at);
  if (!isCompressed(chunk) && chunk.ulen !== chunk.byteLength) {
    const message = `Cannot read ${chunkTitle(chunk)}: chunk_ulen must equal chunk_length ${chunk.byteLength}, found ${chunk.ulen}`;
    throw new FormatError("format/aero.chunk-size", message, at);
  }
}

/** Decodes the stored bytes of a chunk. Never gives more than `chunk_ulen` bytes, whatever a frame claims. */
export async function decodeChunk(chunk: Chunk, stored: Bytes, context: ChunkContext): Promise<Bytes> {
  checkChunkSize(chunk, context);
  if (!isCompressed(chunk)) return stored;
  const at = chunkAt(context.label, chunk);
  let content: Bytes;
  try {
    content = await context.engine.zstdDecompress(stored, { maxBytes: chunk.ulen, at });
  } catch (error) {
    if (!isTareError(error) || error.code.startsWith("unsupported/")) throw error;
    const message = `Cannot decompress ${chunkTitle(chunk)} to chunk_ulen ${chunk.ulen} bytes: ${error.message}`;
    throw new FormatError("format/aero.zstd", message, at, { cause: error });
  }
  if (content.byteLength === chunk.ulen) return content;
  const message = `Cannot decompress ${chunkTitle(chunk)}: chunk_ulen must be the ${content.byteLength} bytes of its frame, found ${chunk.ulen}`;
  throw new FormatError("format/aero.chunk-size", message, at);
}

/** Throws if the content does not match the TOC's digest. */
export async function checkChunkHash(chunk: Chunk, content: Bytes, context: ChunkContext): Promise<void> {
  const problem = compareHash(chunk, await context.engine.digest("blake3", content), context);
  if (problem !== undefined) throw problem;
}

/** The error for a digest that differs from the TOC's; undefined if they agree. */
export function compareHash(
  chunk: Chunk,
  found: Bytes,
  { toc, label }: Pick<ChunkContext, "toc" | "label">,
): IntegrityError | undefined {
  const wanted = toc.hashOf(chunk);
  if (equalBytes(wanted, found)) return undefined;
  const at = { ...chunkAt(label, chunk), byteLength: chunk.byteLength };
  const where = `bytes ${chunk.offset} to ${chunk.offset + chunk.byteLength}`;
  const message = `${chunkTitle(chunk)} is damaged: BLAKE3 of ${where} must be ${encodeHex(wanted)}, found ${encodeHex(found)}`;
  return new IntegrityError("integrity/aero.chunk-hash", message, at, {
    hint: "Download the file again",
  });
}

/** Reads, decompresses and checks one metadata chunk. */
export async function readChunk(source: Source, chunk: Chunk, context: ChunkContext): Promise<Bytes> {
  checkChunkSize(chunk, context);
  const stored =
    chunk.byteLength === 0
      ? new Uint8Array(0)
      : await source.read(chunk.offset, chunk.byteLength, { signal: context.signal });
  const content = await decodeChunk(chunk, stored, context);
  await checkChunkHash(chunk, content, context);
  return content;
}

/**
 * Runs a decoder over the content of a chunk. Offsets in its errors count from the chunk's first byte in the file. A
 * compressed chunk has no such byte, so the error gives the chunk's place, and its message the place inside it.
 */
export async function decodeContent<T>(chunk: Chunk, label: string, decode: () => T | Promise<T>): Promise<T> {
  try {
    return await decode();
  } catch (error) {
    if (!isTareError(error) || !isCompressed(chunk)) throw error;
    const { at, message, ...rest } = error.toJSON();
    const inside =
      (at.offset ?? 0) > chunk.offset ? ` (byte ${(at.offset ?? 0) - chunk.offset} after decompression)` : "";
    throw reviveError({ ...rest, message: message + inside, at: { ...at, source: label, offset: chunk.offset } });
  }
}

/** Refuses a compressed chunk if the specification says "Never". */
export function checkRaw(chunk: Chunk, label: string): void {
  if (!RAW.includes(chunk.fourcc) || !isCompressed(chunk)) return;
  const message = `Cannot check ${chunkTitle(chunk)}: must be stored raw, found the flag COMPRESSED_ZSTD`;
  throw new FormatError("format/aero.compressed", message, chunkAt(label, chunk));
}

/** A raw chunk must have equal lengths. */
export function checkRawSize(chunk: Chunk, label: string): void {
  if (chunk.ulen === chunk.byteLength) return;
  const message = `Cannot check ${chunkTitle(chunk)}: chunk_ulen must equal chunk_length ${chunk.byteLength}, found ${chunk.ulen}`;
  const at = chunkAt(label, chunk, `toc[${chunk.index}].chunk_ulen`);
  throw new FormatError("format/aero.chunk-size", message, at);
}

/** Unneeded bytes worth fetching to save a round trip: the length of the opening read. */
const MAX_GAP = OPENING_BYTES;
/** Longer runs are fetched separately, so that no buffer grows beyond what every system has. */
const MAX_BATCH = 1 << 30;

/** What to fetch: `wanted` in any case, `welcome` only if it comes along with something wanted. */
interface TogetherRequest<E extends Extent> {
  readonly wanted: readonly E[];
  readonly welcome?: readonly E[];
  readonly signal?: AbortSignal | undefined;
}

/** Fetches extents in as few reads as their places allow; returns one view for each fetched extent. */
export async function readTogether<E extends Extent>(
  source: Source,
  opening: Bytes,
  request: TogetherRequest<E>,
): Promise<Map<E, Bytes>> {
  const { wanted, welcome = [], signal } = request;
  const found = new Map<E, Bytes>();
  const missing: E[] = [];
  const needed = new Set(wanted);
  for (const extent of [...wanted, ...welcome]) {
    const end = extent.offset + extent.byteLength;
    if (end <= opening.byteLength) found.set(extent, opening.subarray(extent.offset, end));
    else missing.push(extent);
  }
  missing.sort((a, b) => a.offset - b.offset);
  for (const batch of planBatches(missing, { maxGap: MAX_GAP, maxBytes: MAX_BATCH })) {
    if (!batch.members.some((member) => needed.has(member))) continue;
    const bytes = await source.read(batch.offset, batch.byteLength, { signal });
    for (const member of batch.members) {
      const start = member.offset - batch.offset;
      found.set(member, bytes.subarray(start, start + member.byteLength));
    }
  }
  return found;
}
