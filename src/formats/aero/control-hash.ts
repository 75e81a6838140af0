import { type Bytes, equalBytes } from "../../base/bytes.ts";
import { FormatError, IntegrityError } from "../../base/errors.ts";
import { encodeHex } from "../../base/hex.ts";
import type { Extent } from "../../bytes/extents.ts";
import type { Source } from "../../bytes/source.ts";
import type { Engine } from "../../primitives/engine.ts";
import type { ControlHash, Range } from "./chunks/ihsh.ts";
import { type FileHeader, fileHeader, HASH_BYTES, TOC_HASH_OFFSET, tocEntry, tocHeader } from "./layout.ts";
import { type Chunk, chunkAt } from "./toc.ts";

/** One read; the region is as a rule far smaller. */
const PIECE_BYTES = 1 << 20;

/** The file whose control region is checked. */
export interface ControlRegion {
  readonly source: Source;
  readonly header: FileHeader;
  readonly entryCount: number;
  /** The IHSH chunk. */
  readonly chunk: Chunk;
}

/** Throws where the ranges leave out a part of header, TOC or string table, or reach beyond the file. */
export function checkCoverage({ ranges }: ControlHash, { source, header, entryCount, chunk }: ControlRegion): void {
  const end = ranges.at(-1)?.[1] ?? 0;
  const tables: readonly (Extent & { readonly name: string })[] = [
    { name: "the header", offset: 0, byteLength: fileHeader.byteLength },
    {
      name: "the TOC",
      offset: header.tocOffset,
      byteLength: tocHeader.byteLength + entryCount * tocEntry.byteLength,
    },
    { name: "the string table", offset: header.stringTableOffset, byteLength: header.stringTableLength },
  ];
  const bare = tables.find((table) => !isCovered(table, ranges));
  if (bare === undefined && end <= source.byteLength) return;
  const problem =
    bare === undefined
      ? `must end at or before ${source.byteLength}, found ${end}`
      : `must cover ${bare.name} up to ${bare.offset + bare.byteLength}, found an end at ${end}`;
  const message = `Cannot check AERO control region: covered_ranges ${problem}`;
  throw new FormatError("format/aero.ihsh", message, chunkAt(source.label, chunk, "ihsh.covered_ranges"));
}

/** Ranges that touch count as one. */
function isCovered({ offset, byteLength }: Extent, ranges: readonly Range[]): boolean {
  let position = offset;
  for (const [start, end] of ranges) {
    if (start <= position && end > position) position = end;
    if (position >= offset + byteLength) return true;
  }
  return byteLength === 0;
}

/** The error for a region that differs from its digest; undefined where they agree. */
export async function compareControlHash(
  hash: ControlHash,
  region: ControlRegion,
  options: { readonly engine: Engine; readonly signal?: AbortSignal | undefined },
): Promise<IntegrityError | undefined> {
  checkCoverage(hash, region);
  const found = await digestRegion(hash.ranges, region, options);
  if (equalBytes(found, hash.digest)) return undefined;
  const { source, chunk } = region;
  const message = `The control region is damaged: BLAKE3 of header, TOC and string table must be ${encodeHex(hash.digest)}, found ${encodeHex(found)}`;
  const at = { ...chunkAt(source.label, chunk, "ihsh.digest"), offset: 0 };
  return new IntegrityError("integrity/aero.control-hash", message, at, { hint: "Download the file again" });
}

/** BLAKE3 over the ranges one after the other, with the digest of every TOC entry as zeros (AIP-0001). */
async function digestRegion(
  ranges: readonly Range[],
  region: ControlRegion,
  { engine, signal }: { readonly engine: Engine; readonly signal?: AbortSignal | undefined },
): Promise<Bytes> {
  const hasher = await engine.hasher("blake3");
  for (const [start, end] of ranges) {
    for (let offset = start; offset < end; offset += PIECE_BYTES) {
      const byteLength = Math.min(PIECE_BYTES, end - offset);
      const piece = (await region.source.read(offset, byteLength, { signal })).slice();
      zeroHashes(piece, offset, region);
      hasher.update(piece);
    }
  }
  return hasher.digest();
}

/** `piece` begins at `offset` of the file. */
function zeroHashes(piece: Bytes, offset: number, { header, entryCount }: ControlRegion): void {
  const first = header.tocOffset + tocHeader.byteLength + TOC_HASH_OFFSET;
  const from = Math.max(0, Math.floor((offset - first - HASH_BYTES) / tocEntry.byteLength));
  for (let i = from; i < entryCount; i++) {
    const start = first + i * tocEntry.byteLength - offset;
    if (start >= piece.byteLength) return;
    const end = start + HASH_BYTES;
    if (end > 0) piece.fill(0, Math.max(0, start), end);
  }
}
