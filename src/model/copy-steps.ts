import type { Bytes } from "../base/bytes.ts";
import { runOf } from "../bytes/slice.ts";
import type { Source } from "../bytes/source.ts";
import type { Piece } from "./pieces.ts";

/**
 * How a list of pieces becomes reads and appends: large tensors are cut into reads of one buffer, runs of small
 * neighbouring ones share a read, so that 100 000 tensors of 70 bytes cost a few reads. Pure; no I/O.
 */
export interface Step {
  /** At most one buffer's worth. */
  readonly read?: { readonly source: Source; readonly offset: number; readonly byteLength: number };
  readonly emissions: readonly Emission[];
  /** Bytes appended. */
  readonly byteLength: number;
}

export type Emission =
  | { readonly kind: "bytes"; readonly bytes: Bytes }
  | { readonly kind: "zeros"; readonly byteLength: number }
  | { readonly kind: "read"; readonly start: number; readonly end: number };

/** Unwanted bytes between two tensors that are worth reading to save a round trip. */
export const MAX_GAP = 64 << 10;

/** A step in the making. */
interface Draft {
  source: Source | undefined;
  start: number;
  end: number;
  emissions: Emission[];
  byteLength: number;
}

const emptyDraft = (): Draft => ({ source: undefined, start: 0, end: 0, emissions: [], byteLength: 0 });

export function* planSteps(pieces: Iterable<Piece>, bufferBytes: number): Generator<Step> {
  let draft = emptyDraft();
  for (const piece of pieces) {
    if (piece.kind === "bytes" || piece.kind === "zeros") {
      draft.emissions.push(piece);
      draft.byteLength += piece.kind === "bytes" ? piece.bytes.byteLength : piece.byteLength;
      continue;
    }
    const source = piece.tensor.source();
    const run = runOf(source);
    const whole = run?.whole ?? source;
    const start = run?.start ?? 0;
    if (joins(draft, whole, start, source.byteLength, bufferBytes)) {
      addRead(draft, whole, start, source.byteLength);
      continue;
    }
    yield* finish(draft);
    draft = emptyDraft();
    let done = 0;
    for (; source.byteLength - done > bufferBytes; done += bufferBytes) {
      const large = emptyDraft();
      addRead(large, whole, start + done, bufferBytes);
      yield* finish(large);
    }
    addRead(draft, whole, start + done, source.byteLength - done);
  }
  yield* finish(draft);
}

function joins(draft: Draft, source: Source, start: number, byteLength: number, bufferBytes: number): boolean {
  if (byteLength === 0) return true;
  if (draft.source === undefined) return byteLength <= bufferBytes;
  if (draft.source !== source || start < draft.start) return false;
  return start - draft.end <= MAX_GAP && Math.max(draft.end, start + byteLength) - draft.start <= bufferBytes;
}

function addRead(draft: Draft, source: Source, start: number, byteLength: number): void {
  if (byteLength === 0) return;
  if (draft.source === undefined) {
    draft.source = source;
    draft.start = start;
    draft.end = start;
  }
  draft.end = Math.max(draft.end, start + byteLength);
  draft.emissions.push({ kind: "read", start: start - draft.start, end: start - draft.start + byteLength });
  draft.byteLength += byteLength;
}

function* finish(draft: Draft): Generator<Step> {
  if (draft.emissions.length === 0) return;
  const { source, start, end, emissions, byteLength } = draft;
  if (source === undefined) yield { emissions, byteLength };
  else yield { read: { source, offset: start, byteLength: end - start }, emissions, byteLength };
}
