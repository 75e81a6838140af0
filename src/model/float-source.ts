import type { Bytes } from "../base/bytes.ts";
import { ComputedSource } from "../bytes/derived.ts";
import { checkRange } from "../bytes/extents.ts";
import type { ReadOptions } from "../bytes/source.ts";

/** Elements that one step makes. */
const PIECE_ELEMENTS = 1 << 18;

/** float32 values, little-endian, that are made of something else when they are read. */
export abstract class FloatSource extends ComputedSource {
  constructor({ label, elementCount }: { readonly label: string; readonly elementCount: number }) {
    super({ label, byteLength: 4 * elementCount, pieceBytes: 4 * PIECE_ELEMENTS });
  }

  /** Elements `first` … `last`, the last one left out. */
  protected abstract values(
    first: number,
    last: number,
    signal: AbortSignal | undefined,
  ): Promise<Float32Array<ArrayBuffer>>;

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    checkRange(this.label, this.byteLength, offset, byteLength);
    const result = options.into ?? new Uint8Array(byteLength);
    const end = offset + byteLength;
    for (let position = offset; position < end; ) {
      const first = Math.floor(position / 4);
      const last = Math.min(Math.ceil(end / 4), first + PIECE_ELEMENTS);
      const bytes = littleEndian(await this.values(first, last, options.signal));
      const piece = bytes.subarray(position - 4 * first, Math.min(bytes.byteLength, end - 4 * first));
      result.set(piece, position - offset);
      position += piece.byteLength;
    }
    return result;
  }
}

function littleEndian(values: Float32Array<ArrayBuffer>): Bytes {
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  if (new Uint8Array(new Uint16Array([1]).buffer)[0] === 1) return bytes;
  const view = new DataView(values.buffer, values.byteOffset, values.byteLength);
  for (let i = 0; i < values.length; i++) view.setFloat32(4 * i, values[i] as number, true);
  return bytes;
}
