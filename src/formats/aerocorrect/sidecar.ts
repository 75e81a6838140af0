import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { encodeUtf8 } from "../../base/text.ts";
import type { Source } from "../../bytes/source.ts";
import type { Finding } from "../../model/finding.ts";
import {
  AVEC_HEADER_BYTES,
  type AvecPlan,
  encodeAvecHeader,
  type ParityGrid,
  planAvec,
  type ReadableBytes,
} from "../../model/parity/avec.ts";
import type { Engine } from "../../primitives/engine.ts";
import { DIRECTORY_COPIES, directoryHead, payloadsAt, segmentRow, sidecarFront } from "./layout.ts";

/** What a segment of a sidecar protects: a window of the file, by a payload of parity. */
export interface SidecarSegment {
  readonly windowOffset: number;
  readonly windowLength: number;
  /** Where its payload is in the sidecar; empty where the window is not protected. */
  readonly offset: number;
  readonly byteLength: number;
  /** The payload's first bytes as the directory has them: they outlive damage of the payload. */
  readonly avecHeader: Bytes | undefined;
}

/**
 * "file": the windows are all of a file, one behind the other. "vault": header, manifest and blocks of an AeroVault, by
 * their position; nothing else of the container is protected.
 */
export type SidecarKind = "file" | "vault";

/** A sidecar that was read. */
export interface Sidecar {
  readonly version: 1 | 2;
  readonly kind: SidecarKind;
  readonly label: string;
  /** Of the file that is protected. */
  readonly totalLength: number;
  /** Of the file that is protected. */
  readonly contentSha256: Bytes;
  readonly segments: readonly SidecarSegment[];
  /** What is damaged in the sidecar itself and was made up for. */
  readonly findings: readonly Finding[];
  readonly source: Source;
}

/** Says which sidecar belongs to which content (dossier 5.6). */
export function bindingId(engine: Engine, contentSha256: Bytes): Promise<Bytes> {
  return engine.digest("blake3", concatBytes([encodeUtf8("aerocorrect-binding-v1"), contentSha256]));
}

/** The payload of a segment, its first bytes as the directory has them. */
export function segmentPayload({ source }: Sidecar, segment: SidecarSegment): ReadableBytes {
  const { offset: start, byteLength, avecHeader } = segment;
  return {
    byteLength,
    read: async (offset, length) => {
      const bytes = await source.read(start + offset, length);
      if (avecHeader === undefined || offset >= AVEC_HEADER_BYTES) return bytes;
      const copy = bytes.slice();
      copy.set(avecHeader.subarray(offset, Math.min(AVEC_HEADER_BYTES, offset + length)));
      return copy;
    },
  };
}

/** Files are protected in windows of so many bytes, each for itself (dossier 5.6). */
export const WINDOW_BYTES = 64 << 20;

/** A window and its parity. */
export interface PlannedSegment {
  readonly windowOffset: number;
  readonly windowLength: number;
  readonly plan: AvecPlan;
  /** Where the payload goes in the sidecar. */
  readonly offset: number;
}

/** Every decision about a sidecar, before the first byte of the file is read. */
export interface SidecarPlan {
  readonly totalLength: number;
  readonly segments: readonly PlannedSegment[];
  /** Of the sidecar. */
  readonly byteLength: number;
}

/** A sidecar for a file of that length: windows one behind the other; an empty file has one, which is empty. */
export function planFileSidecar(
  totalLength: number,
  grid: ParityGrid,
  windowBytes: number = WINDOW_BYTES,
): SidecarPlan {
  const windows: { windowOffset: number; windowLength: number; plan: AvecPlan }[] = [];
  for (let windowOffset = 0; windowOffset < totalLength || windows.length === 0; windowOffset += windowBytes) {
    const windowLength = Math.min(windowBytes, totalLength - windowOffset);
    windows.push({ windowOffset, windowLength, plan: planAvec(grid, windowLength) });
  }
  return placeSegments(totalLength, windows);
}

/** Payloads one behind the other, behind the directory. */
export function placeSegments(totalLength: number, windows: readonly Omit<PlannedSegment, "offset">[]): SidecarPlan {
  let offset = payloadsAt(windows.length);
  const segments = windows.map((window) => {
    const segment = { ...window, offset };
    offset += window.plan.payloadBytes;
    return segment;
  });
  return { totalLength, segments, byteLength: offset };
}

/** Everything in front of the payloads. */
export async function encodeFront(engine: Engine, plan: SidecarPlan, contentSha256: Bytes): Promise<Bytes> {
  const count = plan.segments.length;
  const front = sidecarFront.encode({ firstCount: count, secondCount: count, thirdCount: count });
  const head = directoryHead.encode({
    totalLength: plan.totalLength,
    bindingId: await bindingId(engine, contentSha256),
    contentSha256,
  });
  const rows = plan.segments.map(({ windowOffset, windowLength, plan: avec }) => {
    const avecHeader = new Uint8Array(32);
    avecHeader.set(encodeAvecHeader(avec));
    return segmentRow.encode({ windowOffset, windowLength, avecLength: avec.payloadBytes, avecHeader });
  });
  const directory = concatBytes([head, ...rows]);
  const copy = [directory, await engine.digest("blake3", directory)];
  return concatBytes([front, ...Array.from({ length: DIRECTORY_COPIES }, () => copy).flat()]);
}
