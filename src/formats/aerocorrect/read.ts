import { type Bytes, equalBytes } from "../../base/bytes.ts";
import { FormatError, isTareError, type Location, UnsupportedError } from "../../base/errors.ts";
import type { Source } from "../../bytes/source.ts";
import type { Finding } from "../../model/finding.ts";
import type { Engine } from "../../primitives/engine.ts";
import { checkSegments, kindOf, segmentAt } from "./check-segments.ts";
import {
  DIGEST_BYTES,
  DIRECTORY_COPIES,
  directoryBytes,
  directoryHead,
  MOST_SEGMENTS,
  payloadsAt,
  SIDECAR_MAGIC,
  SIDECAR_VERSION,
  segmentRow,
  sidecarFront,
  sidecarMagic,
} from "./layout.ts";
import { readSidecarV1 } from "./read-v1.ts";
import { bindingId, type Sidecar, type SidecarSegment } from "./sidecar.ts";

/**
 * Reads the front of a sidecar: what it protects and where the parity is. Two of three copies of the directory may be lost,
 * or all three damaged in different places; the payloads are not looked at. The caller closes `source`, after the result.
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

/** Values that are there twice, then the others; nothing has no segments. */
function likelyCounts(slots: readonly number[]): readonly number[] {
  const twice = slots.filter((count, i) => slots.indexOf(count) !== i);
  return [...new Set([...twice, ...slots])].filter((count) => count > 0);
}

interface Directory {
  readonly bytes: Bytes;
  readonly proof: "checksum" | "vote";
  readonly findings: readonly Finding[];
}

/** The first copy that has its checksum; else what most copies say of each byte, where that agrees with itself. */
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
  // Where all three differ the first one counts.
  const bytes = first.map((byte, i) => (second[i] === third[i] ? (second[i] as number) : byte));
  const { bindingId: binding, contentSha256: sha256 } = directoryHead.fields;
  const field = ({ offset }: { readonly offset: number }): Bytes => bytes.subarray(offset, offset + DIGEST_BYTES);
  return equalBytes(await bindingId(engine, field(sha256)), field(binding)) ? bytes : undefined;
}

/** What a vote gives may be nonsense, above all where the count is wrong: then it is none. A checksum is believed. */
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
