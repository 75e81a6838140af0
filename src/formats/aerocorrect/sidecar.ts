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

/** A segment of a sidecar: a window of the file, and the parity payload that protects it. */
export interface SidecarSegment {
  readonly windowOffset: number;
  readonly windowLength: number;
  /** Place of the payload in the sidecar; empty if the window is not protected. */
  readonly offset: number;
  readonly byteLength: number;
  /** The payload's first bytes as the directory has them. They survive damage of the payload. */
  readonly avecHeader: Bytes | undefined;
}

/**
 * "file": the windows cover a file, one after the other. "vault": header, manifest and blocks of an AeroVault, by their
 * position; nothing else of the container is protected.
 */
export type SidecarKind = "file" | "vault";

/** A sidecar that was read. */
export interface Sidecar {
  readonly version: 1 | 2;
  readonly kind: SidecarKind;
  readonly label: string;
  /** Length of the protected file. */
  readonly totalLength: number;
  /** Digest of the protected file. */
  readonly contentSha256: Bytes;
  readonly segments: readonly SidecarSegment[];
  /** Damage of the sidecar itself that was repaired while reading. */
  readonly findings: readonly Finding[];
  readonly source: Source;
}

/** Binds a sidecar to its content (docs/formats/aerocorrect.md#directory). */
export function bindingId(engine: Engine, contentSha256: Bytes): Promise<Bytes> {
  return engine.digest("blake3", concatBytes([encodeUtf8("aerocorrect-binding-v1"), contentSha256]));
}

/** The payload of a segment, with its first bytes taken from the directory. */
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

/** Each window of this length is protected separately (docs/formats/aerocorrect.md#sidecars-of-files). */
const WINDOW_BYTES = 64 << 20;

/** A window and its parity. */
export interface PlannedSegment {
  readonly windowOffset: number;
  readonly windowLength: number;
  readonly plan: AvecPlan;
  /** Offset of the payload in the sidecar. */
  readonly offset: number;
}

/** Every decision about a sidecar, before the first byte of the file is read. */
export interface SidecarPlan {
  readonly totalLength: number;
  readonly segments: readonly PlannedSegment[];
  /** Length of the sidecar. */
  readonly byteLength: number;
}

/** A sidecar for a file of that length: windows one after the other. An empty file has one empty window. */
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

/** Places the payloads one after the other, after the directory. */
export function placeSegments(totalLength: number, windows: readonly Omit<PlannedSegment, "offset">[]): SidecarPlan {
  let offset = payloadsAt(windows.length);
  const segments = windows.map((window) => {
    const segment = { ...window, offset };
    offset += window.plan.payloadBytes;
    return segment;
  });
  return { totalLength, segments, byteLength: offset };
}

/** Everything before the payloads. */
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
