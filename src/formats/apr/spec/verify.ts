import { isTareError } from "../../../base/errors.ts";
import { type Extent, findGaps } from "../../../bytes/extents.ts";
import type { Source } from "../../../bytes/source.ts";
import { type Finding, findingFromError } from "../../../model/finding.ts";
import type { VerifyContext } from "../../../model/format.ts";
import type { AprModel } from "../apr-model.ts";
import { type SpecDetails, specDetails } from "./details.ts";
import { crcError, decodeFooter, type FileChecksums } from "./footer.ts";
import { fileFooter } from "./layout.ts";
import { lintOnVerify } from "./lint.ts";
import { occupied } from "./sections.ts";

/** Findings as they arise; one damaged tensor does not hide the next. */
export async function* verifySpec(model: AprModel, context: VerifyContext): AsyncGenerator<Finding> {
  yield* verifySpecFile(model, context, () => undefined);
}

/** The same, handing the checksums to the caller, as far as the level looks for them: a manifest has one of its own. */
export async function* verifySpecFile(
  model: AprModel,
  context: VerifyContext,
  onChecksums: (checksums: FileChecksums) => void,
): AsyncGenerator<Finding> {
  const details = specDetails(model);
  context.count("tensors", model.tensors.length);
  yield* lintOnVerify(details);
  const { source } = details;
  const end = source.byteLength - fileFooter.byteLength;
  const tail = await source.read(end, fileFooter.byteLength, { signal: context.signal });
  const footer = decodeFooter(tail, source.byteLength, source.label);
  if (footer.problem !== undefined) yield findingFromError(footer.problem);
  const hasFooter = footer.problem?.code !== "format/apr.footer";
  if (context.level !== "full") {
    if (hasFooter) onChecksums({ crc: footer.crc32, fileCrc: await context.engine.crc32(tail, footer.crc32) });
    if (context.level === "control") yield noControlDigest(source.label);
    return;
  }
  const scan = await scanFile(details, context);
  onChecksums({ crc: scan.crc, fileCrc: await context.engine.crc32(tail, scan.crc) });
  if (scan.crc !== footer.crc32 && hasFooter) {
    yield findingFromError(crcError(footer.crc32, scan.crc, source.label, source.byteLength));
  }
  if (scan.paddingAt !== undefined) yield strangePadding(source.label, scan.paddingAt);
  yield* verifyBlocks(model, details, context);
}

function noControlDigest(label: string): Finding {
  return {
    severity: "note",
    code: "integrity/apr.no-control-digest",
    message: "Header, metadata and index have no digest of their own: the CRC of the footer covers the whole file",
    at: { source: label, offset: 0, path: "footer.crc32" },
    hint: "Check everything with: tare verify --full",
  };
}

function strangePadding(label: string, offset: number): Finding {
  return {
    severity: "warning",
    code: "format/apr.padding",
    message: `Padding should be zeros, found another byte at ${offset}`,
    at: { source: label, offset, path: "padding" },
  };
}

interface Scan {
  readonly crc: number;
  /** Of the first byte between regions and tensors that is not zero. */
  readonly paddingAt: number | undefined;
}

/** The checksums of a file of any layout: a manifest may list others than the specification's. */
export async function readChecksums(source: Source, context: VerifyContext): Promise<FileChecksums> {
  const end = Math.max(0, source.byteLength - fileFooter.byteLength);
  let crc = 0;
  for await (const piece of source.stream(0, { byteLength: end, signal: context.signal })) {
    crc = await context.engine.crc32(piece, crc);
  }
  const tail = await source.read(end, source.byteLength - end, { signal: context.signal });
  return { crc, fileCrc: await context.engine.crc32(tail, crc) };
}

/** One pass over the file. */
async function scanFile(details: SpecDetails, context: VerifyContext): Promise<Scan> {
  const { source } = details;
  const byteLength = source.byteLength - fileFooter.byteLength;
  const gaps = findGaps(occupied(details), details.dataEnd);
  let crc = 0;
  let position = 0;
  let next = 0;
  let paddingAt: number | undefined;
  for await (const piece of source.stream(0, { byteLength, signal: context.signal })) {
    crc = await context.engine.crc32(piece, crc);
    const end = position + piece.byteLength;
    for (; paddingAt === undefined && next < gaps.length; next++) {
      const gap = gaps[next] as Extent;
      if (gap.offset >= end) break;
      const from = Math.max(gap.offset, position);
      const to = Math.min(gap.offset + gap.byteLength, end);
      const strange = piece.subarray(from - position, to - position).findIndex((byte) => byte !== 0);
      if (strange >= 0) paddingAt = from + strange;
      if (gap.offset + gap.byteLength > end) break;
    }
    position = end;
    context.count("bytes", piece.byteLength);
    context.onProgress?.(piece.byteLength);
  }
  return { crc, paddingAt };
}

/** A CRC can be right over blocks that were never LZ4: each compressed tensor is decoded once. */
async function* verifyBlocks(
  model: AprModel,
  { entries }: SpecDetails,
  context: VerifyContext,
): AsyncGenerator<Finding> {
  for (const [i, tensor] of model.tensors.entries()) {
    const entry = entries[i];
    if (entry?.storage !== "lz4" || entry.sealing === "encrypted") continue;
    try {
      for await (const piece of tensor.stream({ signal: context.signal }))
        context.count("decodedBytes", piece.byteLength);
    } catch (error) {
      if (!isTareError(error) || error.code.startsWith("source/")) throw error;
      yield { ...findingFromError(error), name: tensor.name };
    }
  }
}
