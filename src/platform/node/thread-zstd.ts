import { type Bytes, concatBytes } from "../../base/bytes.ts";
import type { ZstdCodec } from "../../primitives/compress/zstd.ts";

/** One stream of the addon @cloudpss/zstd; after `end` it begins another frame. */
interface AddonStream {
  data(bytes: Buffer, callback: (piece: Buffer) => void): void;
  end(callback: (piece: Buffer) => void): void;
}

/** The part of the addon whose contexts belong to one thread. */
export interface AddonBindings {
  readonly Compressor: new (level: number) => AddonStream;
  readonly Decompressor: new () => AddonStream;
}

/** Magic number, descriptor and window of a frame that does not declare its size (RFC 8878 §3.1.1). */
const UNSIZED_HEADER_BYTES = 6;
const DESCRIPTOR_AT = 4;
/** Descriptor: the size follows in four bytes. */
const SIZE_IN_FOUR = 0x80;

/**
 * zstd for a thread beside others. Contexts are kept: each is some megabytes that the garbage collector knows nothing of.
 * One that failed is not used again.
 */
export function threadCodec({ Compressor, Decompressor }: AddonBindings): ZstdCodec {
  const compressors = new Map<number, AddonStream>();
  let decompressor: AddonStream | undefined;
  return {
    compress(bytes, level) {
      const stream = compressors.get(level) ?? new Compressor(level);
      compressors.delete(level);
      const frame = runStream(stream, bytes);
      compressors.set(level, stream);
      return declareSize(frame, bytes.byteLength);
    },
    decompress(bytes, { frame, maxBytes }) {
      const stream = decompressor ?? new Decompressor();
      decompressor = undefined;
      const content = concatBytes(runStream(stream, bytes));
      // A stream that gave less may wait for the rest of this frame: the next one would be taken for it.
      if (content.byteLength === (frame.contentBytes ?? maxBytes)) decompressor = stream;
      return content;
    },
  };
}

/** What a stream makes of `bytes`, in pieces that are copies already. */
function runStream(stream: AddonStream, bytes: Bytes): Bytes[] {
  const pieces: Bytes[] = [];
  const take = (piece: Buffer): void => {
    pieces.push(new Uint8Array(piece.buffer as ArrayBuffer, piece.byteOffset, piece.byteLength));
  };
  stream.data(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), take);
  stream.end(take);
  return pieces;
}

/** A stream does not know how long it will be; its header is given the size afterwards. */
function declareSize(pieces: readonly Bytes[], byteLength: number): Bytes {
  const [first, ...rest] = pieces;
  if (first === undefined || first[DESCRIPTOR_AT] !== 0 || byteLength > 0xffff_ffff) return concatBytes(pieces);
  const size = new Uint8Array(4);
  new DataView(size.buffer).setUint32(0, byteLength, true);
  const frame = concatBytes([
    first.subarray(0, UNSIZED_HEADER_BYTES),
    size,
    first.subarray(UNSIZED_HEADER_BYTES),
    ...rest,
  ]);
  frame[DESCRIPTOR_AT] = SIZE_IN_FOUR;
  return frame;
}
