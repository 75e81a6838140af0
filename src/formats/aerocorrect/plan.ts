import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { type AvecPlan, encodeAvecHeader, planAvec } from "../../model/parity/avec.ts";
import type { ParityGrid } from "../../model/parity/grid.ts";
import type { Engine } from "../../primitives/engine.ts";
import { DIRECTORY_COPIES, directoryHead, payloadsAt, segmentRow, sidecarFront } from "./layout.ts";
import { bindingId } from "./sidecar.ts";

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
