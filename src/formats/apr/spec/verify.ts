import { isTareError } from "../../../base/errors.ts";
import { printable } from "../../../base/text.ts";
import { type Extent, findGaps } from "../../../bytes/extents.ts";
import { type Finding, findingFromError } from "../../../model/finding.ts";
import type { VerifyContext } from "../../../model/format.ts";
import { occupied } from "../inspect.ts";
import type { AprModel } from "../model.ts";
import { type SpecDetails, specDetails } from "../model.ts";
import { crcError, decodeFooter, type FileChecksums } from "./header.ts";
import { FILE_FLAGS, fileFooter } from "./layout.ts";
import { lintOnVerify } from "./lint.ts";
import type { ShardEntry } from "./manifest.ts";
import { readChecksums, strangeShard, wrongNumbers } from "./shard-proof.ts";
import type { ManifestDetails } from "./shards.ts";

/** Findings as they arise; one damaged tensor does not hide the next. */
export async function* verifySpec(model: AprModel, context: VerifyContext): AsyncGenerator<Finding> {
  yield* verifySpecFile(model, context, () => undefined);
}

/** The same, and hands the checksums to the caller, as far as the level computes them: a manifest has its own CRC. */
async function* verifySpecFile(
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
    hint: 'Check everything: verify it at the level "full"',
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
  /** Offset of the first nonzero byte between regions and tensors. */
  readonly paddingAt: number | undefined;
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

/** A CRC can be right over blocks that were never LZ4, so each compressed tensor is decoded once. */
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

/** Verifies a shard in a layout other than the specification's. */
type VerifyShard = (model: AprModel, context: VerifyContext) => AsyncIterable<Finding>;

/** Verifies every shard as a separate file, and against what the manifest says about it. */
export async function* verifyManifest(
  model: AprModel,
  context: VerifyContext,
  verifyShard: VerifyShard,
): AsyncGenerator<Finding> {
  const { manifest, shards } = model.details as ManifestDetails;
  context.count("shards", shards.length);
  for (const warning of model.warnings) {
    // Opening tolerates a shard that holds more than the manifest says; a set that contradicts itself is not sound.
    if (warning.code === "format/apr.unlisted-tensor") yield { ...warning, severity: "error" };
  }
  for (const [i, shard] of shards.entries()) {
    const entry = manifest.shards[i] as ShardEntry;
    if (shard.layout !== "spec") {
      yield* verifyShard(shard, context);
      const [part] = shard.parts;
      if (part === undefined || context.level !== "full" || entry.crc32 === undefined) continue;
      yield* compareCrc(model, entry, i, await readChecksums(part.source, context));
      continue;
    }
    let checksums: FileChecksums | undefined;
    yield* verifySpecFile(shard, context, (found) => {
      checksums = found;
    });
    yield* compareCrc(model, entry, i, checksums);
    yield* checkFlag(shard, entry);
    const wanted = { index: i, count: shards.length };
    for (const wrong of wrongNumbers(shard, entry, wanted)) yield { ...findingFromError(wrong), name: entry.file };
  }
}

/** The CRC-32 of the bytes before the footer binds a shard to its set; older manifests have the whole file's CRC. */
function* compareCrc(
  model: AprModel,
  entry: ShardEntry,
  i: number,
  checksums: FileChecksums | undefined,
): Generator<Finding> {
  if (checksums === undefined) return;
  const at = { source: model.parts[0]?.label ?? "", offset: 0, path: `shards[${i}].crc32` };
  if (entry.crc32 === undefined) {
    const message = `The manifest has no CRC-32 for "${printable(entry.file)}"`;
    yield { severity: "warning", code: "integrity/apr.no-shard-crc", message, at };
    return;
  }
  const strange = strangeShard(entry, i, checksums, at.source);
  if (strange !== undefined) yield { ...findingFromError(strange), name: entry.file };
  else if (entry.crc32 !== checksums.crc) {
    const message = `The CRC-32 of "${printable(entry.file)}" is the one of the whole file, which every shard of this length has`;
    const hint = "Make the set again to have its manifest tell shards of other models";
    yield { severity: "note", code: "format/apr.shard-crc-kind", message, at, hint };
  }
}

function* checkFlag(shard: AprModel, { file }: ShardEntry): Generator<Finding> {
  const { header } = shard.details as { readonly header: { readonly flags: number } };
  if (FILE_FLAGS.has(header.flags, "SHARDED")) return;
  const message = `The shard "${printable(file)}" does not have the flag SHARDED`;
  yield { severity: "warning", code: "format/apr.flags", message, at: { source: file, offset: 8, path: "flags" } };
}
