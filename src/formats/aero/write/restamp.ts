import { type Bytes, concatBytes, equalBytes } from "../../../base/bytes.ts";
import { UnsupportedError, UsageError } from "../../../base/errors.ts";
import { alignUp } from "../../../base/integers.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import { type Extent, endOf } from "../../../bytes/extents.ts";
import type { Container } from "../../../model/archive.ts";
import type { FormatRestamp, RestampContext, RestampPiece } from "../../../model/capabilities.ts";
import { Metadata } from "../../../model/metadata.ts";
import { MsgpackReader } from "../../../primitives/encoding/msgpack-reader.ts";
import { MsgpackWriter } from "../../../primitives/encoding/msgpack-writer.ts";
import { checkChunkSize, decodeChunk } from "../chunks/chunk.ts";
import { decodeIhsh } from "../chunks/digests.ts";
import { renderJsonObject } from "../chunks/metadata.ts";
import { type Chunk, isCompressed } from "../chunks/toc.ts";
import { CHUNK_FLAGS, FOURCC, fileHeader, HASH_BYTES, TOC_HASH_OFFSET, tocEntry, tocHeader } from "../layout.ts";
import { AeroModel } from "../model.ts";
import { ZSTD_LEVEL } from "./metadata.ts";

/** A chunk with new content. */
interface NewChunk {
  readonly chunk: Chunk;
  /** Uncompressed. */
  readonly content: Bytes;
  readonly stored: Bytes;
  readonly flags: number;
}

/** If a chunk does not fit, everything after it moves by a multiple of this, so that memory pages stay aligned. */
const SHIFT_ALIGNMENT = 4096;

/** The file with some chunks replaced, in their own room if they fit. Offsets and digests in the TOC are updated. */
async function planChunks(
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
function unfit(label: string, problem: string): UnsupportedError {
  const hint = "Write the file again with: tare convert IN.aero OUT.aero";
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

/** In the order of the file, each with its room; refuses chunks that share bytes or begin before the tables end. */
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

/** Records the new offset of every chunk that begins in a copied run. */
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
  /** Offset of the first replaced chunk. */
  readonly firstOffset: number;
}

/** Puts the tables first. If there is an IHSH, computes its digest again (AIP-0001). */
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

/** The pieces with one copied run replaced by bytes of its length; the run is in a single piece, before any shift. */
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

/** Header and tables, with edited TOC entries. */
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

  /** Zeroes the digests in a copy of the file's first bytes. */
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

/** Edits the MJSN chunk, and the manifest if it repeats the model's name or architecture. */
export const aeroRestamp: FormatRestamp = {
  values: "json",
  // These decide how quantised tensors are read.
  fixedKeys: ["source_format", "quant_descriptors"],
  target(container) {
    const model = aeroModel(container);
    const { source, json } = model.content;
    if (json === undefined) throw unfit(source.label, "must have a metadata chunk (MJSN) that can be read");
    return { source, metadata: new Metadata(json.entries) };
  },
  async plan(container, metadata, context) {
    const model = aeroModel(container);
    const { toc } = model.content.control;
    const chunk = toc.first(FOURCC.json);
    if (chunk === undefined) throw unfit(model.content.source.label, "must have a metadata chunk (MJSN)");
    const json = encodeUtf8(renderJsonObject(metadata.entries));
    const chunks = [await pack(chunk, json, context)];
    const manifest = await editManifest(model, metadata, context);
    if (manifest !== undefined) chunks.push(await pack(manifest.chunk, manifest.content, context));
    for (const { content } of chunks) checkSize(model, chunk, content, context);
    return planChunks(model, chunks, context);
  },
};

function aeroModel(container: Container): AeroModel {
  if (container instanceof AeroModel) return container;
  const at = { source: container.parts[0]?.label ?? container.format };
  throw new UsageError("usage/aero.container", `Cannot treat a ${container.format} container as AERO`, at);
}

/** Refuses content above what readers hold: the file could not be opened again. */
function checkSize(model: AeroModel, chunk: Chunk, { byteLength }: Bytes, context: RestampContext): void {
  checkChunkSize({ ...chunk, flags: 0, byteLength, ulen: byteLength }, model.chunkContext(context));
}

/** Compresses only if the chunk was compressed and compression still helps. */
async function pack(chunk: Chunk, content: Bytes, { engine }: RestampContext): Promise<NewChunk> {
  const raw = { chunk, content, stored: content, flags: chunk.flags & ~CHUNK_FLAGS.COMPRESSED_ZSTD };
  if (!isCompressed(chunk)) return raw;
  const stored = await engine.zstdCompress(content, { level: ZSTD_LEVEL });
  return stored.byteLength < content.byteLength ? { ...raw, stored, flags: chunk.flags } : raw;
}

/** The manifest with the metadata's new name and architecture; undefined if nothing changes. */
async function editManifest(
  model: AeroModel,
  metadata: Metadata,
  context: RestampContext,
): Promise<{ readonly chunk: Chunk; readonly content: Bytes } | undefined> {
  const { control, json, manifest, source } = model.content;
  const chunk = control.toc.first(FOURCC.manifest);
  const before = new Metadata(json?.entries ?? []);
  const wanted = new Map<string, string>();
  for (const [field, key, held] of [
    ["name", "model_name", manifest.name],
    ["architecture", "architecture", manifest.architecture],
  ] as const) {
    const text = metadata.text(key);
    if (held !== undefined && text !== undefined && text !== before.text(key) && text !== held) wanted.set(field, text);
  }
  if (chunk === undefined || wanted.size === 0) return undefined;
  const stored = await source.read(chunk.offset, chunk.byteLength, { signal: context.signal });
  const content = await decodeChunk(chunk, stored, model.chunkContext(context));
  return { chunk, content: replaceTexts(content, wanted, source.label) };
}

/** The MessagePack map with texts of its member "model" replaced and every other byte unchanged. */
function replaceTexts(content: Bytes, wanted: ReadonlyMap<string, string>, label: string): Bytes {
  const reader = new MsgpackReader(content, { source: label, base: 0, what: "AERO MMSG" });
  const pieces: Bytes[] = [];
  let copied = 0;
  for (let left = reader.readMapHeader("mmsg"); left > 0; left--) {
    const key = reader.readKey("mmsg");
    if (key !== "model" || reader.peekType(key) !== "map") {
      reader.skip(key);
      continue;
    }
    for (let members = reader.readMapHeader(key); members > 0; members--) {
      const text = wanted.get(reader.readKey(key));
      const start = content.byteLength - reader.remaining;
      reader.skip(key);
      if (text === undefined) continue;
      const writer = new MsgpackWriter();
      writer.string(text);
      pieces.push(content.subarray(copied, start), writer.take());
      copied = content.byteLength - reader.remaining;
    }
  }
  return concatBytes([...pieces, content.subarray(copied)]);
}
