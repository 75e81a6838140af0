import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { UnsupportedError, UsageError } from "../../base/errors.ts";
import { alignUp } from "../../base/integers.ts";
import { printable } from "../../base/text.ts";
import type { Output, Sink } from "../../bytes/sink.ts";
import type { Container } from "../../model/archive.ts";
import type { FormatRestamp, RestampContext, RestampPiece } from "../../model/capabilities.ts";
import type { FormatWriter, WriteContext, WritePlan } from "../../model/format.ts";
import type { Metadata, MetadataEntry } from "../../model/metadata.ts";
import { ORIGIN_KEY } from "../../model/origin/origin.ts";
import { CrcSink, checkWritten, writePieces } from "../../model/pieces.ts";
import { crc32Combine } from "../../primitives/digest/crc32.ts";
import { embd } from "./index.ts";
import { ALIGNMENT, FILE_FLAGS, fileFooter, MAGIC_END } from "./layout.ts";
import { EmbdModel, type SpecDetails } from "./model.ts";
import { type EmbdImage, type EmbdPlan, isHoldable, planEmbd } from "./plan.ts";
import { prepareEmbd } from "./prepare.ts";
import { decodeFooter } from "./spec/footer.ts";
import { checkFront, encodeHeader } from "./spec/front.ts";
import { encodeMetadataSection, splitOrigin, type TextEntry } from "./spec/metadata.ts";
import { VOCABULARY_KEYS } from "./spec/read.ts";
import { decodeTokens } from "./spec/vocabulary.ts";

/** Writes what `planEmbd` decided, from beginning to end. Nothing is visible before it is checked. */
async function writeEmbd(plan: WritePlan, output: Output, context: WriteContext): Promise<void> {
  const { image, primary } = ownPlan(plan);
  const sink = await output.create(primary);
  try {
    await fillSink(image, sink, context);
    await checkWritten(new Map([[primary, sink]]), { name: primary, label: output.label }, context);
    await sink.commit();
  } catch (error) {
    await sink.abort().catch(() => undefined); // the first error is the one that matters
    throw error;
  }
}

/** One pass gives both checksums: the file's is joined from those of the front, the data and the gap. */
async function fillSink({ front, data, footer }: EmbdImage, sink: Sink, context: WriteContext): Promise<void> {
  const { engine } = context;
  await sink.append(front.bytes);
  const summing = new CrcSink(sink, engine);
  await writePieces(data, summing, context);
  const gap = new Uint8Array(front.gapBytes);
  if (gap.byteLength > 0) await sink.append(gap);
  if (footer === "none") return;
  const dataChecksum = await summing.crc();
  const upToData = crc32Combine(await engine.crc32(front.bytes), dataChecksum, front.dataSize);
  const fileChecksum = crc32Combine(upToData, await engine.crc32(gap), gap.byteLength);
  const sums = footer === "sums" ? { dataChecksum, fileChecksum } : { dataChecksum: 0, fileChecksum: 0 };
  await sink.append(fileFooter.encode({ ...sums, magicEnd: MAGIC_END }));
}

function ownPlan(plan: WritePlan): EmbdPlan {
  if ("image" in plan && plan.files.length === 1) return plan as EmbdPlan;
  throw new UsageError("usage/embd.container", "Cannot write EMBD from another format's plan", { source: "plan" });
}

/** Edits the metadata of a file of the specification's layout. The padding before the data shrinks or grows. */
const embdRestamp: FormatRestamp = {
  values: "text",
  fixedKeys: VOCABULARY_KEYS,
  target(container) {
    const { source } = ownDetails(container);
    return { source, metadata: (container as EmbdModel).metadata };
  },
  plan(container, metadata, context) {
    return planPieces(ownDetails(container), metadata, context);
  },
};

function ownDetails(container: Container): SpecDetails {
  const at = { source: container.parts[0]?.label ?? container.format };
  if (!(container instanceof EmbdModel)) {
    throw new UsageError("usage/embd.container", `Cannot treat a ${container.format} container as EMBD`, at);
  }
  const { details } = container;
  const hint = "Write the file again with: tare convert IN OUT.weights";
  if (details.layout !== "spec") {
    const message = `Cannot edit metadata of the EMBD layout "${details.layout}": it has none, must be the specification's`;
    throw new UnsupportedError("unsupported/stamp.layout", message, at, { hint });
  }
  if (isInOrder(details)) return details;
  const message = "Cannot edit EMBD metadata alone: metadata, vocabulary, index and data must follow each other";
  throw new UnsupportedError("unsupported/stamp.layout", message, { ...at, offset: 12, path: "header" }, { hint });
}

/** True if the sections are in the usual order of writers, and the front was read completely. */
function isInOrder({ header, front, namesEnd, footerOffset }: SpecDetails): boolean {
  const { metadataOffset, metadataSize, vocabOffset, vocabSize, tensorIndexOffset, tensorDataOffset } = header;
  const metadataEnd = metadataOffset + metadataSize;
  const vocabularyIsBetween =
    vocabSize === 0 || (vocabOffset >= metadataEnd && vocabOffset + vocabSize <= tensorIndexOffset);
  const isOrdered = metadataEnd <= tensorIndexOffset && namesEnd <= tensorDataOffset;
  return front !== undefined && footerOffset !== undefined && vocabularyIsBetween && isOrdered;
}

async function planPieces(
  details: SpecDetails,
  metadata: Metadata,
  { engine, signal }: RestampContext,
): Promise<readonly RestampPiece[]> {
  const { source, header, end, front: before = new Uint8Array(0), footerOffset = end } = details;
  const front = encodeFront(details, encodeMetadataSection(fileEntries(metadata, source.label)));
  const stored = await source.read(footerOffset, fileFooter.byteLength, { signal });
  const footer = decodeFooter(stored, details, source.label);
  const restBytes = footerOffset - header.tensorDataOffset;
  // The checksum of the rest follows from the old checksums, so earlier damage of the file is still detected.
  const rest = crc32Combine(await engine.crc32(before), footer.fileChecksum, restBytes);
  const fileChecksum = crc32Combine(await engine.crc32(front), rest, restBytes);
  const isSummed = footer.fileChecksum !== 0 || FILE_FLAGS.has(header.flags, "CHECKSUM_ENABLED");
  return [
    { kind: "bytes", bytes: front },
    { kind: "copy", offset: header.tensorDataOffset, byteLength: restBytes },
    { kind: "bytes", bytes: isSummed ? fileFooter.encode({ ...footer, fileChecksum }) : stored },
  ];
}

/** The entries without the vocabulary, with an origin split again. */
function fileEntries(metadata: Metadata, source: string): TextEntry[] {
  return metadata.entries
    .filter(({ key }) => !VOCABULARY_KEYS.includes(key))
    .flatMap((entry) => {
      const text = textEntry(entry);
      if (text !== undefined && entry.key === ORIGIN_KEY) return splitOrigin(text.value.value);
      if (text !== undefined && isHoldable(text.value)) return [text];
      const message = `Cannot write EMBD metadata: "${printable(entry.key)}" must be text of at most 65535 bytes`;
      throw new UsageError("usage/stamp.key", message, { source, path: `metadata.${entry.key}` });
    });
}

function textEntry({ key, value }: MetadataEntry): TextEntry | undefined {
  return value.type === "string" ? { key, value } : undefined;
}

/** The start of the data moves only if the room does not suffice, and then by an amount that keeps every alignment. */
function encodeFront(
  { header, front = new Uint8Array(0), vocabulary, source, namesEnd }: SpecDetails,
  metadata: Bytes,
): Bytes {
  const { metadataOffset, vocabOffset, vocabSize, tensorIndexOffset, tensorDataOffset } = header;
  const shift = metadata.byteLength - header.metadataSize;
  const newEnd = namesEnd + shift;
  const dataOffset = tensorDataOffset + alignUp(Math.max(0, newEnd - tensorDataOffset), ALIGNMENT);
  checkFront(dataOffset, source.label);
  const moved = dataOffset - tensorDataOffset;
  const edited = encodeHeader({
    ...header,
    metadataSize: metadata.byteLength,
    vocabOffset: vocabSize === 0 ? vocabOffset : vocabOffset + shift,
    tensorIndexOffset: tensorIndexOffset + shift,
    tensorDataOffset: dataOffset,
    totalFileSize: header.totalFileSize + moved,
  });
  const rest = front.slice(metadataOffset + header.metadataSize, namesEnd);
  if (vocabulary?.base === "file") {
    // The offset of the special block counts from the beginning of the file, so it moves along.
    const at = vocabOffset - metadataOffset - header.metadataSize + 8;
    const view = new DataView(rest.buffer, rest.byteOffset);
    view.setUint32(at, view.getUint32(at, true) + shift, true);
  }
  const between = front.subarray(edited.byteLength, metadataOffset);
  return concatBytes([edited, between, metadata, rest, new Uint8Array(dataOffset - newEnd)]);
}

export const writer: FormatWriter = {
  format: embd,
  options: ["align", "int8", "vocabulary"],
  naming: { model: "model_name" },
  decodeValue: decodeTokens,
  restamp: embdRestamp,
  prepare: prepareEmbd,
  plan: planEmbd,
  write: writeEmbd,
};
