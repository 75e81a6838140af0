import { isTareError, LimitError } from "../../base/errors.ts";
import type { Extent } from "../../bytes/extents.ts";
import { type Finding, findingFromError } from "../../model/finding.ts";
import type { FormatVerifier, VerifyContext } from "../../model/format.ts";
import type { AeroModel } from "./aero-model.ts";
import { aeroModel } from "./aero-model.ts";
import { checkRaw, checkRawSize, compareHash, decodeContent, readChunk } from "./chunk.ts";
import { decodeIhsh } from "./chunks/ihsh.ts";
import { decodeMjsn } from "./chunks/mjsn.ts";
import { decodeMmsg } from "./chunks/mmsg.ts";
import { compareControlHash } from "./control-hash.ts";
import { FOURCC, fileHeader, tocEntry, tocHeader } from "./layout.ts";
import { type Chunk, chunkTitle, isCompressed } from "./toc.ts";
import { MAX_SHARING, verifyShards } from "./verify-shards.ts";
import { verifyTensors } from "./verify-tensors.ts";

/** Chunks that a reader decodes: quick looks at these, control adds the control region, full everything else. */
const METADATA: readonly string[] = [FOURCC.json, FOURCC.manifest, FOURCC.index, FOURCC.control, FOURCC.pages];

/** Findings as they arise; one damaged chunk does not hide the next. */
export async function* verifyAero(model: AeroModel, context: VerifyContext): AsyncGenerator<Finding> {
  const { toc } = model.content.control;
  context.count("tensors", model.tensors.length);
  const tooMuch = [...verifyWork(model, context)];
  yield* tooMuch;
  if (tooMuch.length === 0) yield* verifyChunks(model, context);
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
 * Chunks may claim the same bytes: a small file with a long TOC could ask for any amount of hashing. What is read and
 * decompressed must stay below so many times the file, and what the specification allows one chunk of metadata.
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
    checkRaw(chunk, source.label);
    const content = await readChunk(source, chunk, model.chunkContext(context));
    const hash = decodeIhsh(content, { label: source.label, offset: chunk.offset });
    const region = { source, header: control.header, entryCount: control.toc.chunks.length, chunk };
    const problem = await compareControlHash(hash, region, context);
    if (problem !== undefined) throw problem;
    context.count("controlRegions");
  });
}

function noControlHash(label: string): Finding {
  return {
    severity: "warning",
    code: "integrity/aero.no-control-hash",
    message: "The file has no IHSH chunk: its header, TOC and string table were not compared with anything",
    at: { source: label, offset: 0, path: "toc" },
    hint: "Write it again with --control-hash",
  };
}

/** A chunk of a type that nobody here knows still has a digest. */
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

/** Tables and chunks that share bytes, by offset. */
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
      const message = `${furthest.title} ends at ${end}, behind the beginning of ${extent.title} at ${extent.offset}`;
      const at = { source: content.source.label, offset: extent.offset, path: "toc" };
      yield { severity: "error", code: "format/aero.overlap", message, at };
    }
    if (extent.offset + extent.byteLength > end) furthest = extent;
  }
}

/** Runs a check; what it throws becomes a finding. */
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
