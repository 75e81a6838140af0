import type { Bytes } from "../../base/bytes.ts";
import { FormatError, type Location } from "../../base/errors.ts";
import { planAvec } from "../../model/parity/avec.ts";
import { parityGrid } from "../../model/parity/grid.ts";
import type { SidecarKind, SidecarSegment } from "./sidecar.ts";

/** No grid gives longer payloads. */
const MOST_PERCENT = 50;
/** The first window of a vault's sidecar: its header. */
const VAULT_HEADER_BYTES = 1024;
/** Header, manifest, data. */
const VAULT_SEGMENTS = 3;

/** A row with the place of its payload. */
export function segmentAt(
  row: { readonly windowOffset: number; readonly windowLength: number; readonly avecLength: number },
  offset: number,
  avecHeader: Bytes | undefined,
): SidecarSegment {
  const { windowOffset, windowLength, avecLength: byteLength } = row;
  return { windowOffset, windowLength, offset, byteLength, avecHeader: byteLength === 0 ? undefined : avecHeader };
}

/** Refuses payloads that are longer than any parity of their windows, or that do not fill the sidecar to its end. */
export function checkSegments(
  segments: readonly SidecarSegment[],
  { label, payloadsEnd }: { readonly label: string; readonly payloadsEnd: number },
): void {
  let end = segments[0]?.offset ?? payloadsEnd;
  for (const [i, { windowLength, offset, byteLength }] of segments.entries()) {
    const most = planAvec(parityGrid(MOST_PERCENT), windowLength).payloadBytes;
    end = offset + byteLength;
    if (byteLength <= most && end <= payloadsEnd) continue;
    const message = `Cannot read the sidecar: avec_len must be <= ${Math.min(most, payloadsEnd - offset)}, found ${byteLength}`;
    throw new FormatError("format/aerocorrect.segment", message, { source: label, path: `segments[${i}].avec_len` });
  }
  if (end === payloadsEnd) return;
  const message = `Cannot read the sidecar: its segments must end at ${payloadsEnd}, found ${end}`;
  const hint = "The sidecar was cut short, or something was appended to it";
  throw new FormatError("format/aerocorrect.segment", message, { source: label, offset: end }, { hint });
}

/** By their shape: those of vaults and of files have one name and differ in nothing else. */
export function kindOf(segments: readonly SidecarSegment[], at: Location): SidecarKind {
  const [first] = segments;
  const isHeader = first?.windowOffset === 0 && first.windowLength === VAULT_HEADER_BYTES;
  if (segments.length === VAULT_SEGMENTS && isHeader) return "vault";
  let end = 0;
  for (const [i, { windowOffset, windowLength }] of segments.entries()) {
    if (windowOffset !== end) {
      const message = `Cannot use the sidecar: window ${i} must begin at ${end}, where the one before it ends, found ${windowOffset}`;
      throw new FormatError("format/aerocorrect.window", message, { ...at, path: `segments[${i}].window_offset` });
    }
    end += windowLength;
  }
  return "file";
}
