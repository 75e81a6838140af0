import { type Bytes, equalBytes } from "../../base/bytes.ts";
import { FormatError, IntegrityError } from "../../base/errors.ts";
import type { Source } from "../../bytes/source.ts";
import { AVEC_HEADER_BYTES } from "../../model/parity/avec.ts";
import type { Engine } from "../../primitives/engine.ts";
import { checkSegments, kindOf, segmentAt } from "./check-segments.ts";
import { DIGEST_BYTES, frontV1, MOST_SEGMENTS, segmentRowV1 } from "./layout.ts";
import type { Sidecar, SidecarSegment } from "./sidecar.ts";

/** Version 1: no copies, payloads between their rows, and one checksum over everything: any flipped bit refuses it. */
export async function readSidecarV1(source: Source, engine: Engine): Promise<Sidecar> {
  const at = { source: source.label, offset: 0 };
  const end = source.byteLength - DIGEST_BYTES;
  if (end < frontV1.byteLength) throw cutShort(source.label, `must have ${frontV1.byteLength + DIGEST_BYTES} bytes`);
  const found = await engine.digestRange("blake3", source, { offset: 0, byteLength: end });
  if (!equalBytes(found, await source.read(end, DIGEST_BYTES))) {
    const message = "Cannot trust the sidecar: the checksum at its end must be that of its bytes, and is not";
    const hint = "Sidecars of version 1 do not survive damage: get another copy, or make it again";
    throw new IntegrityError("integrity/aerocorrect.checksum", message, { ...at, offset: end }, { hint });
  }
  const front = frontV1.decode(await source.read(0, frontV1.byteLength), at);
  const segments = await readSegments(source, front.segmentCount, end);
  checkSegments(segments, { label: source.label, payloadsEnd: end });
  const { totalLength, contentSha256 } = front;
  const kind = kindOf(segments, at);
  const { label } = source;
  return { version: 1, kind, label, totalLength, contentSha256: contentSha256.slice(), segments, findings: [], source };
}

/** Rows are found one by one: each says where the next one is. Their number only says when to stop. */
async function readSegments(source: Source, count: number, end: number): Promise<SidecarSegment[]> {
  if (count > MOST_SEGMENTS) throw cutShort(source.label, `must have ${MOST_SEGMENTS} segments or fewer`);
  const segments: SidecarSegment[] = [];
  let position = frontV1.byteLength;
  while (segments.length < count) {
    if (end - position < segmentRowV1.byteLength) throw cutShort(source.label, `must have ${count} segments`);
    const at = { source: source.label, offset: position, path: `segments[${segments.length}]` };
    const row = segmentRowV1.decode(await source.read(position, segmentRowV1.byteLength), at);
    position += segmentRowV1.byteLength;
    if (row.avecLength > end - position) throw cutShort(source.label, `avec_len must be <= ${end - position}`);
    segments.push(segmentAt(row, position, await readHead(source, position, row.avecLength)));
    position += row.avecLength;
  }
  if (segments.length === 0) throw cutShort(source.label, "must have one segment or more");
  return segments;
}

async function readHead(source: Source, offset: number, byteLength: number): Promise<Bytes | undefined> {
  return byteLength < AVEC_HEADER_BYTES ? undefined : (await source.read(offset, AVEC_HEADER_BYTES)).slice();
}

function cutShort(label: string, rule: string): FormatError {
  return new FormatError("format/aerocorrect.segment", `Cannot read the sidecar: it ${rule}`, { source: label });
}
