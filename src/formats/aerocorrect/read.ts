import { type Bytes, equalBytes } from "../../base/bytes.ts";
import { FormatError, IntegrityError, isTareError, type Location, UnsupportedError } from "../../base/errors.ts";
import type { Source } from "../../bytes/source.ts";
import type { Finding } from "../../model/finding.ts";
import { AVEC_HEADER_BYTES, MOST_PARITY_PERCENT, parityGrid, planAvec } from "../../model/parity/avec.ts";
import type { Engine } from "../../primitives/engine.ts";
import {
  DIGEST_BYTES,
  DIRECTORY_COPIES,
  directoryBytes,
  directoryHead,
  frontV1,
  MOST_SEGMENTS,
  payloadsAt,
  SIDECAR_MAGIC,
  SIDECAR_VERSION,
  segmentRow,
  segmentRowV1,
  sidecarFront,
  sidecarMagic,
  VAULT_HEADER_BYTES,
  VAULT_SEGMENTS,
} from "./layout.ts";
import { bindingId, type Sidecar, type SidecarKind, type SidecarSegment } from "./sidecar.ts";

/**
 * Reads the front of a sidecar: what it protects, and where the parity is. Two of three copies of the directory may be
 * lost, or all three damaged in different places. The payloads are not read. The caller closes `source`, after it is
 * done with the result.
 */
export async function readSidecar(source: Source, engine: Engine): Promise<Sidecar> {
  const at = { source: source.label, offset: 0 };
  const version = await readVersion(source, at);
  if (version === 1) return readSidecarV1(source, engine);
  const front = sidecarFront.decode(await source.read(0, sidecarFront.byteLength), at, { code: FRONT });
  const { firstCount, secondCount, thirdCount } = front;
  for (const count of likelyCounts([firstCount, secondCount, thirdCount])) {
    const end = payloadsAt(count);
    if (count > MOST_SEGMENTS || end > source.byteLength) continue;
    const region = await source.read(sidecarFront.byteLength, end - sidecarFront.byteLength);
    const directory = await findDirectory(engine, region, count, at);
    const sidecar = directory === undefined ? undefined : tryDirectory(source, count, directory);
    if (sidecar !== undefined) return sidecar;
  }
  const message = "Cannot read the sidecar: all three copies of its directory are damaged beyond recognition";
  const hint = "Get another copy of the sidecar, or make it again from the file while that is whole";
  throw new FormatError("format/aerocorrect.directory", message, { ...at, offset: 9 }, { hint });
}

const FRONT = "format/aerocorrect.front";

async function readVersion(source: Source, at: Location): Promise<1 | 2> {
  const length = Math.min(source.byteLength, sidecarFront.byteLength);
  const bytes = await source.read(0, length);
  if (length < sidecarFront.byteLength) {
    const message = `Cannot read the sidecar: must begin with ${SIDECAR_MAGIC} and have ${sidecarFront.byteLength} bytes or more, found ${length}`;
    throw new FormatError(FRONT, message, at, { hint: "It is empty, cut short or something else" });
  }
  const { version } = sidecarMagic.decode(bytes, at, { code: FRONT });
  if (version === 1 || version === SIDECAR_VERSION) return version;
  const message = `Cannot read the sidecar: version must be 1 or ${SIDECAR_VERSION}, found ${version}`;
  const hint = "A newer program wrote it, or its first bytes are damaged";
  throw new UnsupportedError("unsupported/aerocorrect.version", message, { ...at, offset: 8 }, { hint });
}

/** Values that occur twice come first, then the others. Zero is excluded: every sidecar has a segment. */
function likelyCounts(slots: readonly number[]): readonly number[] {
  const twice = slots.filter((count, i) => slots.indexOf(count) !== i);
  return [...new Set([...twice, ...slots])].filter((count) => count > 0);
}

interface Directory {
  readonly bytes: Bytes;
  readonly proof: "checksum" | "vote";
  readonly findings: readonly Finding[];
}

/** The first copy that matches its checksum; else the majority of each byte, if the result is consistent. */
async function findDirectory(
  engine: Engine,
  region: Bytes,
  count: number,
  at: Location,
): Promise<Directory | undefined> {
  const length = directoryBytes(count);
  const copies: Bytes[] = [];
  const sound: Bytes[] = [];
  for (let i = 0; i < DIRECTORY_COPIES; i++) {
    const start = i * (length + DIGEST_BYTES);
    const copy = region.subarray(start, start + length);
    const sum = region.subarray(start + length, start + length + DIGEST_BYTES);
    copies.push(copy);
    if (equalBytes(await engine.digest("blake3", copy), sum)) sound.push(copy);
  }
  const bytes = sound[0] ?? (await voted(engine, copies));
  if (bytes === undefined) return undefined;
  const lost = DIRECTORY_COPIES - sound.length;
  const proof = sound.length > 0 ? "checksum" : "vote";
  if (lost === 0) return { bytes, proof, findings: [] };
  const message = `${lost} of ${DIRECTORY_COPIES} copies of the sidecar's directory ${lost === 1 ? "is" : "are"} damaged`;
  const hint = "Make the sidecar again while the file is whole";
  return {
    bytes,
    proof,
    findings: [{ severity: "warning", code: "integrity/aerocorrect.directory", message, at, hint }],
  };
}

async function voted(engine: Engine, copies: readonly Bytes[]): Promise<Bytes | undefined> {
  const [first, second, third] = copies as [Bytes, Bytes, Bytes];
  // If all three differ, the first one counts.
  const bytes = first.map((byte, i) => (second[i] === third[i] ? (second[i] as number) : byte));
  const { bindingId: binding, contentSha256: sha256 } = directoryHead.fields;
  const field = ({ offset }: { readonly offset: number }): Bytes => bytes.subarray(offset, offset + DIGEST_BYTES);
  return equalBytes(await bindingId(engine, field(sha256)), field(binding)) ? bytes : undefined;
}

/**
 * A vote may give nonsense, above all if the count is wrong; then there is no result. A matching checksum is believed.
 */
function tryDirectory(source: Source, count: number, directory: Directory): Sidecar | undefined {
  try {
    return decodeDirectory(source, count, directory);
  } catch (error) {
    if (directory.proof === "checksum" || !isTareError(error)) throw error;
    return undefined;
  }
}

function decodeDirectory(source: Source, count: number, { bytes, findings }: Directory): Sidecar {
  const at = { source: source.label, offset: sidecarFront.byteLength };
  const { totalLength, contentSha256 } = directoryHead.decode(bytes, at);
  const segments: SidecarSegment[] = [];
  let offset = payloadsAt(count);
  for (let i = 0; i < count; i++) {
    const start = directoryHead.byteLength + i * segmentRow.byteLength;
    const row = segmentRow.decode(bytes, { ...at, offset: at.offset + start, path: `segments[${i}]` }, { start });
    segments.push(segmentAt(row, offset, row.avecHeader));
    offset += row.avecLength;
  }
  const { label, byteLength } = source;
  checkSegments(segments, { label, payloadsEnd: byteLength });
  const kind = kindOf(segments, at);
  return { version: 2, kind, label, totalLength, contentSha256: contentSha256.slice(), segments, findings, source };
}

/** Version 1 has no copies, payloads between its rows, and one checksum over everything. Any flipped bit refuses it. */
async function readSidecarV1(source: Source, engine: Engine): Promise<Sidecar> {
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

/** Finds the rows one by one, because each states where the next one is. Their number only tells when to stop. */
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

/** A row together with the place of its payload. */
function segmentAt(
  row: { readonly windowOffset: number; readonly windowLength: number; readonly avecLength: number },
  offset: number,
  avecHeader: Bytes | undefined,
): SidecarSegment {
  const { windowOffset, windowLength, avecLength: byteLength } = row;
  return { windowOffset, windowLength, offset, byteLength, avecHeader: byteLength === 0 ? undefined : avecHeader };
}

/** Refuses payloads that are longer than any parity of their windows, or that do not end where the sidecar ends. */
function checkSegments(
  segments: readonly SidecarSegment[],
  { label, payloadsEnd }: { readonly label: string; readonly payloadsEnd: number },
): void {
  let end = segments[0]?.offset ?? payloadsEnd;
  for (const [i, { windowLength, offset, byteLength }] of segments.entries()) {
    const most = planAvec(parityGrid(MOST_PARITY_PERCENT), windowLength).payloadBytes;
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

/** Sidecars of vaults and of files have the same magic. Only their shape tells them apart. */
function kindOf(segments: readonly SidecarSegment[], at: Location): SidecarKind {
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
