import { type Bytes, equalBytes } from "../../base/bytes.ts";
import { FormatError, IntegrityError, isTareError, LimitError } from "../../base/errors.ts";
import { encodeHex, printable } from "../../base/text.ts";
import type { Extent } from "../../bytes/extents.ts";
import type { Source } from "../../bytes/source.ts";
import { type Finding, findingFromError } from "../../model/finding.ts";
import type { FormatVerifier, VerifyContext } from "../../model/format.ts";
import { storedEnd, type Tensor } from "../../model/tensor.ts";
import type { Engine } from "../../primitives/engine.ts";
import { checkRaw, checkRawSize, compareHash, decodeContent, readChunk } from "./chunks/chunk.ts";
import { type ControlHash, decodeIhsh, type Range } from "./chunks/digests.ts";
import { decodeMjsn, decodeMmsg } from "./chunks/metadata.ts";
import { findSurplus, type SurplusPlace, surplusFindings } from "./chunks/surplus.ts";
import { type Chunk, chunkAt, chunkTitle, isCompressed } from "./chunks/toc.ts";
import { type FileHeader, FOURCC, fileHeader, HASH_BYTES, TOC_HASH_OFFSET, tocEntry, tocHeader } from "./layout.ts";
import { type AeroModel, aeroModel } from "./model.ts";
import type { Shard } from "./weights/shards.ts";
import { MAX_SHARING, verifyShards } from "./weights/verify-shards.ts";

/** Chunks that a reader decodes: quick checks these, control adds the control region, full adds everything else. */
const METADATA: readonly string[] = [FOURCC.json, FOURCC.manifest, FOURCC.index, FOURCC.control, FOURCC.pages];

/** Findings as they arise; one damaged chunk does not hide the next. */
export async function* verifyAero(model: AeroModel, context: VerifyContext): AsyncGenerator<Finding> {
  const { toc } = model.content.control;
  context.count("tensors", model.tensors.length);
  const tooMuch = [...verifyWork(model, context)];
  yield* tooMuch;
  if (tooMuch.length === 0) yield* verifyChunks(model, context);
  yield* await surplusFindings(surplusPlace(model, context));
  if (context.level !== "quick") yield* verifyControl(model, context);
  if (context.level !== "full") return;
  yield* verifyLayout(model);
  yield* verifyTensors(model);
  if (tooMuch.length > 0) return;
  for (const chunk of toc.chunks) {
    if (chunk.fourcc === FOURCC.weights || METADATA.includes(chunk.fourcc)) continue;
    yield* verifyUnknown(model, chunk, context);
  }
  yield* verifyShards(model, context);
}

/**
 * Chunks may claim the same bytes, so a small file with a long TOC could demand any amount of hashing. What is read and
 * decompressed must stay below MAX_SHARING times the file plus the limit of one metadata chunk.
 */
function* verifyWork({ content }: AeroModel, { level }: VerifyContext): Generator<Finding> {
  const { control, limits, source } = content;
  const most = MAX_SHARING * source.byteLength + limits.metadataBytes;
  let total = 0;
  for (const chunk of control.toc.chunks) {
    if (level !== "full" && !METADATA.includes(chunk.fourcc)) continue;
    total += isCompressed(chunk) ? Math.max(chunk.ulen, chunk.byteLength) : chunk.byteLength;
  }
  if (total <= most) return;
  const message = `Cannot check the chunks: they must have <= ${most} bytes in all, found ${total} in a file of ${source.byteLength}`;
  yield findingFromError(
    new LimitError("limit/aero.hash-work", message, { source: source.label, offset: 0, path: "toc" }),
  );
}

export { findSurplus };

/** For what the file holds besides what readers need. */
export function surplusPlace(model: AeroModel, context: Pick<VerifyContext, "engine" | "signal">): SurplusPlace {
  const { source, control, index } = model.content;
  return { source, control, shards: index.shards, context: model.chunkContext(context) };
}

async function* verifyChunks(model: AeroModel, context: VerifyContext): AsyncGenerator<Finding> {
  for (const chunk of model.content.control.toc.chunks) {
    if (METADATA.includes(chunk.fourcc)) yield* verifyMetadata(model, chunk, context);
  }
}

async function* verifyMetadata(model: AeroModel, chunk: Chunk, context: VerifyContext): AsyncGenerator<Finding> {
  const { source } = model.content;
  const { label } = source;
  yield* collect(async () => {
    checkRaw(chunk, label);
    const content = await readChunk(source, chunk, model.chunkContext(context));
    context.count("chunks");
    context.count("bytes", chunk.byteLength);
    context.onProgress?.(chunk.byteLength);
    const place = { label, offset: chunk.offset };
    await decodeContent(chunk, label, () => {
      if (chunk.fourcc === FOURCC.json) decodeMjsn(content, place);
      if (chunk.fourcc === FOURCC.manifest) decodeMmsg(content, place);
    });
  });
}

async function* verifyControl(model: AeroModel, context: VerifyContext): AsyncGenerator<Finding> {
  const { source, control } = model.content;
  const chunk = control.toc.first(FOURCC.control);
  if (chunk === undefined) {
    if (context.level === "control") yield noControlHash(source.label);
    return;
  }
  yield* collect(async () => {
    const problem = await controlDamage(model, context);
    if (problem !== undefined) throw problem;
    context.count("controlRegions");
  });
}

/** The error for a control region that differs from its digest; throws if the IHSH chunk cannot be read. */
export async function controlDamage(
  model: AeroModel,
  context: Pick<VerifyContext, "engine" | "signal">,
): Promise<IntegrityError | undefined> {
  const { source, control } = model.content;
  const chunk = control.toc.first(FOURCC.control);
  if (chunk === undefined) return undefined;
  checkRaw(chunk, source.label);
  const content = await readChunk(source, chunk, model.chunkContext(context));
  const hash = decodeIhsh(content, { label: source.label, offset: chunk.offset });
  const region = { source, header: control.header, entryCount: control.toc.chunks.length, chunk };
  return compareControlHash(hash, region, context);
}

function noControlHash(label: string): Finding {
  return {
    severity: "warning",
    code: "integrity/aero.no-control-hash",
    message: "The file has no IHSH chunk: its header, TOC and string table were not compared with anything",
    at: { source: label, offset: 0, path: "toc" },
    hint: "Write it again with the option controlHash",
  };
}

/** A chunk of an unknown type still has a digest. */
async function* verifyUnknown(model: AeroModel, chunk: Chunk, context: VerifyContext): AsyncGenerator<Finding> {
  const { source } = model.content;
  const reading = model.chunkContext(context);
  yield* collect(async () => {
    if (isCompressed(chunk)) {
      await readChunk(source, chunk, reading);
      context.onProgress?.(chunk.byteLength);
    } else {
      checkRawSize(chunk, source.label);
      const { offset, byteLength } = chunk;
      const { signal, onProgress } = context;
      const found = await context.engine.digestRange("blake3", source, { offset, byteLength, signal, onProgress });
      const problem = compareHash(chunk, found, reading);
      if (problem !== undefined) throw problem;
    }
    context.count("chunks");
    context.count("bytes", chunk.byteLength);
  });
}

/** Reports tables and chunks that share bytes, by offset. */
function* verifyLayout({ content }: AeroModel): Generator<Finding> {
  const { header, toc } = content.control;
  const tocBytes = tocHeader.byteLength + toc.chunks.length * tocEntry.byteLength;
  const extents: (Extent & { readonly title: string })[] = [
    { title: "the header", offset: 0, byteLength: fileHeader.byteLength },
    { title: "the TOC", offset: header.tocOffset, byteLength: tocBytes },
    { title: "the string table", offset: header.stringTableOffset, byteLength: header.stringTableLength },
    ...toc.chunks.map((chunk) => ({ title: chunkTitle(chunk), offset: chunk.offset, byteLength: chunk.byteLength })),
  ];
  const sorted = extents.filter(({ byteLength }) => byteLength > 0).sort((a, b) => a.offset - b.offset);
  let furthest: (typeof sorted)[number] | undefined;
  for (const extent of sorted) {
    const end = furthest === undefined ? 0 : furthest.offset + furthest.byteLength;
    if (furthest !== undefined && end > extent.offset) {
      const message = `${furthest.title} ends at ${end}, past the beginning of ${extent.title} at ${extent.offset}`;
      const at = { source: content.source.label, offset: extent.offset, path: "toc" };
      yield { severity: "error", code: "format/aero.overlap", message, at };
    }
    if (extent.offset + extent.byteLength > end) furthest = extent;
  }
}

/** Runs a check; an error becomes a finding. */
async function* collect(check: () => Promise<void>): AsyncGenerator<Finding> {
  try {
    await check();
  } catch (error) {
    if (!isTareError(error) || error.code.startsWith("source/")) throw error;
    yield findingFromError(error);
  }
}

export const verifier: FormatVerifier = {
  verify: (container, context) => verifyAero(aeroModel(container), context),
};

/** Problems that opening tolerates: tensors without a shard, and tensors that share a part of their bytes. */
function* verifyTensors(model: AeroModel): Generator<Finding> {
  yield* verifyPresence(model);
  yield* verifyOverlaps(model);
}

function* verifyPresence({ content, tensors }: AeroModel): Generator<Finding> {
  const { shards } = content.index;
  const broken = new Map<Shard, { count: number; readonly first: Tensor }>();
  for (const [i, tensor] of tensors.entries()) {
    const shard = shards[i];
    if (shard?.problem === undefined) continue;
    const row = broken.get(shard);
    if (row === undefined) broken.set(shard, { count: 1, first: tensor });
    else row.count++;
  }
  // The index file of a set has no shards at all, and is complete without them.
  const severity = content.shards.weights.size === 0 ? "warning" : "error";
  for (const [{ problem }, { count, first }] of broken) {
    if (problem === undefined) continue;
    const finding = findingFromError(problem, severity);
    const others = count === 1 ? "" : ` and ${count - 1} more`;
    yield { ...finding, message: `${finding.message} (tensor "${printable(first.name)}"${others})`, name: first.name };
  }
}

/** Tied tensors share all of their bytes. Sharing a part is reported once, with the first pair. */
function* verifyOverlaps({ tensors, content }: AeroModel): Generator<Finding> {
  const sorted = tensors.filter((tensor) => tensor.storedByteLength > 0).sort((a, b) => a.offset - b.offset);
  let furthest: Tensor | undefined;
  let pair: readonly [Tensor, Tensor] | undefined;
  let count = 0;
  for (const tensor of sorted) {
    if (furthest !== undefined && storedEnd(furthest) > tensor.offset && !isSame(furthest, tensor)) {
      pair ??= [furthest, tensor];
      count++;
    }
    if (furthest === undefined || storedEnd(tensor) > storedEnd(furthest)) furthest = tensor;
  }
  if (pair === undefined) return;
  const [a, b] = pair;
  const others = count === 1 ? "" : `, and ${count - 1} more`;
  const message = `Tensor "${printable(a.name)}" ends at ${storedEnd(a)}, past the beginning of "${printable(b.name)}" at ${b.offset}${others}`;
  const at = { source: content.source.label, offset: b.offset, path: "tensors" };
  yield { severity: "warning", code: "format/aero.tensor-overlap", message, at, name: b.name };
}

function isSame(a: Tensor, b: Tensor): boolean {
  return a.offset === b.offset && a.storedByteLength === b.storedByteLength;
}

/** One read; the region is usually far smaller. */
const PIECE_BYTES = 1 << 20;

/** The file whose control region is checked. */
export interface ControlRegion {
  readonly source: Source;
  readonly header: FileHeader;
  readonly entryCount: number;
  /** The IHSH chunk. */
  readonly chunk: Chunk;
}

/** Throws if the ranges leave out a part of header, TOC or string table, or end past the file. */
function checkCoverage({ ranges }: ControlHash, { source, header, entryCount, chunk }: ControlRegion): void {
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

/** The error for a region that differs from its digest; undefined if they agree. */
async function compareControlHash(
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

/** BLAKE3 over the ranges in order, with the digest of every TOC entry zeroed (AIP-0001). */
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
