import { type Bytes, equalBytes } from "../../base/bytes.ts";
import { UnsupportedError } from "../../base/errors.ts";
import { alignUp } from "../../base/integers.ts";
import type { Extent } from "../../bytes/extents.ts";
import type { RestampContext, RestampPiece } from "../../model/restamp.ts";
import type { AeroModel } from "./aero-model.ts";
import { decodeIhsh } from "./chunks/ihsh.ts";
import { FOURCC, fileHeader, HASH_BYTES, TOC_HASH_OFFSET, tocEntry, tocHeader } from "./layout.ts";
import type { Chunk } from "./toc.ts";

/** A chunk with other content. */
export interface NewChunk {
  readonly chunk: Chunk;
  /** Uncompressed. */
  readonly content: Bytes;
  readonly stored: Bytes;
  readonly flags: number;
}

/** What does not fit moves everything behind it by a multiple of this, so that pages of memory stay aligned. */
const SHIFT_ALIGNMENT = 4096;

/** The file with some chunks replaced: in their own room where that suffices; offsets and digests of the TOC follow. */
export async function planChunks(
  model: AeroModel,
  replaced: readonly NewChunk[],
  context: RestampContext,
): Promise<readonly RestampPiece[]> {
  const { source, control } = model.content;
  const tables = tableExtents(model);
  const controlEnd = Math.max(...tables.map(endOf));
  const extents = orderExtents(model, tables, replaced);
  const pieces: RestampPiece[] = [];
  const edits = new TocEdits(await source.read(0, controlEnd, { signal: context.signal }), control.header.tocOffset);
  let shift = 0;
  let position = controlEnd;
  for (const [i, { chunk, stored, content, flags }] of extents.entries()) {
    copyRun(pieces, position, chunk.offset);
    moveChunks(model, edits, { from: position, to: chunk.offset, shift });
    const roomEnd = extents[i]?.roomEnd ?? chunk.offset;
    const room = roomEnd - chunk.offset;
    const missing = Math.max(0, stored.byteLength - room);
    const bytes = new Uint8Array(room + alignUp(missing, SHIFT_ALIGNMENT));
    bytes.set(stored);
    pieces.push({ kind: "bytes", bytes });
    const digest = await context.engine.digest("blake3", content);
    edits.write(chunk, {
      offset: chunk.offset + shift,
      byteLength: stored.byteLength,
      ulen: content.byteLength,
      flags,
      digest,
    });
    shift += bytes.byteLength - room;
    position = roomEnd;
  }
  copyRun(pieces, position, source.byteLength);
  moveChunks(model, edits, { from: position, to: source.byteLength + 1, shift });
  return withControlHash(model, edits, { pieces, context, controlEnd, firstOffset: extents[0]?.chunk.offset ?? 0 });
}

/** The error for files whose metadata cannot be replaced alone. */
export function unfit(label: string, problem: string): UnsupportedError {
  const hint = "Write the file anew with: tare convert IN.aero OUT.aero";
  const message = `Cannot edit the metadata of this AERO file: it ${problem}`;
  return new UnsupportedError("unsupported/stamp.layout", message, { source: label }, { hint });
}

function tableExtents({ content }: AeroModel): readonly Extent[] {
  const { header, toc } = content.control;
  const tocBytes = tocHeader.byteLength + toc.chunks.length * tocEntry.byteLength;
  return [
    { offset: 0, byteLength: fileHeader.byteLength },
    { offset: header.tocOffset, byteLength: Math.max(tocBytes, header.tocLength) },
    // An empty table may claim to be anywhere.
    ...(header.stringTableLength === 0
      ? []
      : [{ offset: header.stringTableOffset, byteLength: header.stringTableLength }]),
  ];
}

interface PlacedChunk extends NewChunk {
  /** Where the next chunk begins, or the file ends. */
  readonly roomEnd: number;
}

/** In the order of the file, each with its room; refuses chunks that share bytes or stand before the tables' end. */
function orderExtents(
  { content }: AeroModel,
  tables: readonly Extent[],
  replaced: readonly NewChunk[],
): readonly PlacedChunk[] {
  const { source, control } = content;
  const others = [...tables, ...control.toc.chunks].filter(({ byteLength }) => byteLength > 0);
  const controlEnd = Math.max(...tables.map(endOf));
  const stored = control.toc.chunks.filter(({ byteLength }) => byteLength > 0);
  const first = stored.reduce((least, { offset }) => Math.min(least, offset), Number.POSITIVE_INFINITY);
  if (first < controlEnd) throw unfit(source.label, "must have its tables before every chunk");
  return [...replaced]
    .sort((a, b) => a.chunk.offset - b.chunk.offset)
    .map((item) => {
      const { chunk } = item;
      const rest = others.filter((other) => other !== chunk);
      const shared = rest.some((other) => other.offset < endOf(chunk) && endOf(other) > chunk.offset);
      if (shared) throw unfit(source.label, "must not have chunks that share bytes with its metadata");
      const next = rest.filter(({ offset }) => offset >= chunk.offset).map(({ offset }) => offset);
      return { ...item, roomEnd: Math.min(source.byteLength, ...next) };
    });
}

function copyRun(pieces: RestampPiece[], start: number, end: number): void {
  if (end > start) pieces.push({ kind: "copy", offset: start, byteLength: end - start });
}

interface Move {
  readonly from: number;
  readonly to: number;
  readonly shift: number;
}

/** Gives every chunk that begins in a copied run its new offset. */
function moveChunks({ content }: AeroModel, edits: TocEdits, { from, to, shift }: Move): void {
  if (shift === 0) return;
  for (const chunk of content.control.toc.chunks) {
    if (chunk.offset >= from && chunk.offset < to) edits.move(chunk, chunk.offset + shift);
  }
}

interface ControlParts {
  readonly pieces: readonly RestampPiece[];
  readonly context: RestampContext;
  readonly controlEnd: number;
  /** Of the first chunk that is replaced. */
  readonly firstOffset: number;
}

/** Puts the tables in front; where there is an IHSH, its digest is made anew (AIP-0001). */
async function withControlHash(
  model: AeroModel,
  edits: TocEdits,
  { pieces, context, controlEnd, firstOffset }: ControlParts,
): Promise<readonly RestampPiece[]> {
  const { source, control } = model.content;
  const { engine, signal } = context;
  const chunk = control.toc.first(FOURCC.control);
  if (chunk === undefined) return [{ kind: "bytes", bytes: edits.bytes }, ...pieces];
  const stored = (await source.read(chunk.offset, chunk.byteLength, { signal })).slice();
  const { ranges, digest } = decodeIhsh(stored, { label: source.label, offset: chunk.offset });
  const coveredEnd = ranges.at(-1)?.[1] ?? 0;
  if (coveredEnd > Math.min(firstOffset, chunk.offset) || chunk.offset > firstOffset) {
    throw unfit(source.label, "must have its control hash (IHSH) before its metadata, and only tables covered by it");
  }
  const covered = (await source.read(0, Math.max(coveredEnd, controlEnd), { signal })).slice();
  covered.set(edits.bytes);
  edits.zeroDigests(covered);
  const hasher = await engine.hasher("blake3");
  for (const [start, end] of ranges) hasher.update(covered.subarray(start, end));
  stored.set(hasher.digest(), findDigest(stored, digest, source.label));
  edits.setDigest(chunk, await engine.digest("blake3", stored));
  return [{ kind: "bytes", bytes: edits.bytes }, ...replaceRun(pieces, chunk, stored)];
}

function findDigest(stored: Bytes, digest: Bytes, label: string): number {
  for (let at = 0; at + HASH_BYTES <= stored.byteLength; at++) {
    if (equalBytes(stored.subarray(at, at + HASH_BYTES), digest)) return at;
  }
  throw unfit(label, "must have the digest of its control hash (IHSH) in one piece");
}

/** The pieces with one copied run replaced by bytes of its length; the run lies in a single piece, before any shift. */
function replaceRun(pieces: readonly RestampPiece[], run: Extent, bytes: Bytes): RestampPiece[] {
  return pieces.flatMap((piece): RestampPiece[] => {
    if (piece.kind !== "copy" || run.offset < piece.offset || run.offset >= endOf(piece)) return [piece];
    const parts: RestampPiece[] = [];
    copyRun(parts, piece.offset, run.offset);
    parts.push({ kind: "bytes", bytes });
    copyRun(parts, endOf(run), endOf(piece));
    return parts;
  });
}

interface EntryValues extends Extent {
  readonly ulen: number;
  readonly flags: number;
  readonly digest: Bytes;
}

/** Header and tables, with entries of the TOC written over. */
class TocEdits {
  readonly bytes: Bytes;
  readonly #view: DataView<ArrayBuffer>;
  readonly #first: number;
  #count = 0;

  constructor(control: Bytes, tocOffset: number) {
    this.bytes = control.slice();
    this.#view = new DataView(this.bytes.buffer);
    this.#first = tocOffset + tocHeader.byteLength;
    this.#count = this.#view.getUint32(tocOffset, true);
  }

  write(chunk: Chunk, { offset, byteLength, ulen, flags, digest }: EntryValues): void {
    const at = this.#at(chunk);
    this.#view.setUint32(at + 4, flags, true);
    this.#view.setBigUint64(at + 8, BigInt(offset), true);
    this.#view.setBigUint64(at + 16, BigInt(byteLength), true);
    this.#view.setBigUint64(at + 24, BigInt(ulen), true);
    this.setDigest(chunk, digest);
  }

  move(chunk: Chunk, offset: number): void {
    this.#view.setBigUint64(this.#at(chunk) + 8, BigInt(offset), true);
  }

  setDigest(chunk: Chunk, digest: Bytes): void {
    this.bytes.set(digest, this.#at(chunk) + TOC_HASH_OFFSET);
  }

  /** In a copy of the file's first bytes. */
  zeroDigests(covered: Bytes): void {
    for (let i = 0; i < this.#count; i++) {
      const start = this.#first + i * tocEntry.byteLength + TOC_HASH_OFFSET;
      covered.fill(0, start, start + HASH_BYTES);
    }
  }

  #at({ index }: Chunk): number {
    return this.#first + index * tocEntry.byteLength;
  }
}

function endOf({ offset, byteLength }: Extent): number {
  return offset + byteLength;
}
