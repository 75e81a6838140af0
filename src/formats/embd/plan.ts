import { UsageError } from "../../base/errors.ts";
import type { ModelContent, WriteOptions, WritePlan } from "../../model/format.ts";
import { Metadata } from "../../model/metadata.ts";
import { splitChain } from "../../model/origin.ts";
import type { Piece } from "../../model/pieces.ts";
import { ALIGNMENT, FILE_FLAGS } from "./layout.ts";
import { carriedFront, type EmbdFacts, flagsFor, footerBytes, type PlannedFront, parseFacts } from "./origin-facts.ts";
import { isHoldable, planMetadata } from "./plan-metadata.ts";
import { planTensors, type StoredTensor } from "./plan-tensors.ts";
import { planVocabulary } from "./plan-vocabulary.ts";
import { type FrontContent, renderFront } from "./render.ts";
import { missingRequired } from "./required-metadata.ts";

/** A write with everything decided but the checksums. */
export interface EmbdPlan extends WritePlan {
  readonly image: EmbdImage;
}

export interface EmbdImage {
  readonly front: PlannedFront;
  /** The tensor data with the zeros between tensors, `front.dataSize` bytes together. */
  readonly data: readonly Piece[];
  /** "zeros" where checksums are off: the footer is there nevertheless. */
  readonly footer: "sums" | "zeros" | "none";
}

/** Plans one file of the specification's layout. Pure. */
export function planEmbd(content: ModelContent, options: WriteOptions): EmbdPlan {
  const { own, keep } = splitChain(content.chain, "embd");
  const facts = parseFacts(own);
  const { stored, carried, losses } = planTensors(content.tensors);
  // With no file to go back to, what is filled in is the model's own from now on.
  const completion = keep.length === 0 ? "own" : "added";
  const vocabulary = planVocabulary(content.metadata, completion);
  const tokenCount = vocabulary.vocabulary?.count;
  const missing = missingRequired({ metadata: vocabulary.metadata, tensors: stored, tokenCount });
  const filled = facts.fill === "none" ? [] : missing.filter(({ value }) => isHoldable(value));
  const metadata = planMetadata({
    metadata: completion === "own" ? new Metadata([...filled, ...vocabulary.metadata]) : vocabulary.metadata,
    vocabulary: vocabulary.vocabulary,
    required: completion === "own" ? [] : filled,
    chain: keep,
    tensors: carried,
  });
  const flags = flagsFor(alignedFlags(facts.flags, options), vocabulary.vocabulary);
  const wanted: FrontContent = {
    flags,
    entries: metadata.entries,
    vocabulary: vocabulary.vocabulary,
    tensors: stored,
  };
  const front = planFront(wanted, stored, facts, options);
  const image: EmbdImage = { front, data: planData(stored, front), footer: footerOf(facts, flags) };
  const byteLength = front.bytes.byteLength + front.dataSize + front.gapBytes + footerBytes(facts);
  return {
    files: [{ name: options.name, byteLength }],
    primary: options.name,
    losses: [...losses, ...vocabulary.losses, ...metadata.losses],
    notes: [...vocabulary.notes, ...planNotes(carried.length)],
    image,
  };
}

function alignedFlags(flags: number, { align }: WriteOptions): number {
  if (align === undefined) return flags;
  const aligned = Number(FILE_FLAGS.encode(["TENSORS_ALIGNED"]));
  if (align === ALIGNMENT) return flags | aligned;
  if (align === 1) return flags & ~aligned;
  const message = `Cannot align EMBD tensors to ${align} bytes: must be ${ALIGNMENT}, or 1 for none`;
  throw new UsageError("usage/embd.align", message, { source: "plan", path: "align" });
}

/** The front of the file it was, where that still says the same; else our own rendering. */
function planFront(
  wanted: FrontContent,
  stored: readonly StoredTensor[],
  facts: EmbdFacts,
  { name, align }: WriteOptions,
): PlannedFront {
  const names = stored.map((tensor) => tensor.name);
  const isFree = facts.front === undefined || align !== undefined;
  const carried = isFree || facts.front === undefined ? undefined : carriedFront(facts.front, { ...wanted, names });
  return carried ?? { ...renderFront(wanted, name), gapBytes: 0 };
}

/** Tensors in the order of their offsets, zeros between them and up to the end of the data. */
function planData(stored: readonly StoredTensor[], { dataOffsets, dataSize }: PlannedFront): Piece[] {
  const order = stored.map((_, i) => i).sort((a, b) => (dataOffsets[a] ?? 0) - (dataOffsets[b] ?? 0));
  const pieces: Piece[] = [];
  let position = 0;
  const fill = (to: number): void => {
    if (to > position) pieces.push({ kind: "zeros", byteLength: to - position });
    position = Math.max(position, to);
  };
  for (const i of order) {
    const { tensor, byteLength } = stored[i] as StoredTensor;
    if (byteLength === 0) continue;
    fill(dataOffsets[i] ?? 0);
    pieces.push({ kind: "tensor", tensor });
    position += byteLength;
  }
  fill(dataSize);
  return pieces;
}

function footerOf({ footer }: EmbdFacts, flags: number): EmbdImage["footer"] {
  if (footer === "none") return "none";
  return footer === "sums" || FILE_FLAGS.has(flags, "CHECKSUM_ENABLED") ? "sums" : "zeros";
}

function planNotes(carried: number): string[] {
  if (carried === 0) return [];
  return [`${carried} tensors of types or shapes that EMBD lacks are stored in others; tare.origin says what they are`];
}
