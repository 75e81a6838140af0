import type { HashExtent } from "../primitives/engine.ts";

/** Extents as one array that is cheap to send. */
export function packExtents(extents: readonly HashExtent[]): Float64Array<ArrayBuffer> {
  const packed = new Float64Array(extents.length * 2);
  extents.forEach(({ offset, byteLength }, i) => {
    packed[2 * i] = offset;
    packed[2 * i + 1] = byteLength;
  });
  return packed;
}

/** The same extents, `base` bytes further on. */
export function unpackExtents(packed: Float64Array<ArrayBuffer>, base: number): HashExtent[] {
  const extents: HashExtent[] = [];
  for (let i = 0; i < packed.length; i += 2) {
    extents.push({ offset: base + (packed[i] as number), byteLength: packed[i + 1] as number });
  }
  return extents;
}
