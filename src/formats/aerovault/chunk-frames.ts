import { type Bytes, concatBytes } from "../../base/bytes.ts";
import type { Location } from "../../base/errors.ts";
import { decodeZstdHeader, frameFault, walkZstdBlocks } from "../../primitives/compress/zstd.ts";
import type { Engine } from "../../primitives/engine.ts";

/** RFC 8878 section 3.1.2: sixteen magic numbers announce a frame that holds no content. */
const SKIPPABLE_MAGIC = 0x184d_2a50;
const SKIPPABLE_HEADER_BYTES = 8;

/**
 * What a compressed chunk holds: exactly `byteLength` bytes, never more in memory. Writers make one frame; several, and
 * skippable ones between them, are legal. Anything else behind a frame is refused.
 */
export async function decompressChunk(
  engine: Engine,
  payload: Bytes,
  byteLength: number,
  at: Location,
): Promise<Bytes> {
  const frames = splitFrames(payload, at);
  const [only] = frames;
  const whole = { maxBytes: byteLength, exactBytes: byteLength };
  if (frames.length === 1 && only !== undefined) return engine.zstdDecompress(only.bytes, { ...whole, at: only.at });
  const pieces: Bytes[] = [];
  let left = byteLength;
  for (const frame of frames) {
    const piece = await engine.zstdDecompress(frame.bytes, { maxBytes: left, at: frame.at });
    pieces.push(piece);
    left -= piece.byteLength;
  }
  return concatBytes(pieces);
}

interface Frame {
  readonly bytes: Bytes;
  readonly at: Location;
}

/** The frames with content, by their headers alone. */
function splitFrames(payload: Bytes, at: Location): Frame[] {
  const frames: Frame[] = [];
  for (let start = 0; start < payload.byteLength || start === 0; ) {
    const rest = payload.subarray(start);
    const place = { ...at, offset: (at.offset ?? 0) + start };
    const skipped = skippableLength(rest, place);
    const length = skipped ?? frameLength(rest, place);
    if (skipped === undefined) frames.push({ bytes: rest.subarray(0, length), at: place });
    start += length;
  }
  return frames;
}

function skippableLength(bytes: Bytes, at: Location): number | undefined {
  if (bytes.byteLength < SKIPPABLE_HEADER_BYTES) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, SKIPPABLE_HEADER_BYTES);
  if ((view.getUint32(0, true) & 0xffff_fff0) >>> 0 !== SKIPPABLE_MAGIC) return undefined;
  const length = SKIPPABLE_HEADER_BYTES + view.getUint32(4, true);
  if (length <= bytes.byteLength) return length;
  throw frameFault(`a skippable frame must end within ${bytes.byteLength} bytes, found ${length}`, at);
}

function frameLength(bytes: Bytes, at: Location): number {
  const header = decodeZstdHeader(bytes, at);
  let end = header.byteLength;
  for (const block of walkZstdBlocks(bytes, header, at)) end = block.offset + block.byteLength;
  if (header.checksum === "present") end += 4;
  if (end <= bytes.byteLength) return end;
  throw frameFault(`must have at least ${end} bytes, found ${bytes.byteLength}`, at, bytes.byteLength);
}
