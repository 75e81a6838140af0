import type { Bytes } from "../../base/bytes.ts";
import { STRING_ID, VALUE_BYTES } from "./layout.ts";

/**
 * The bytes of a big-endian value (type id and value, which a ValueWalk has been over) in little-endian order.
 * Everything behind the reader then knows one order only.
 */
export function swapValue(bytes: Bytes): Bytes {
  const swapped = bytes.slice();
  const view = new DataView(swapped.buffer);
  const type = view.getUint32(0, false);
  reverse(swapped, 0, 4);
  swapElements(swapped, view, { type, count: 1, position: 4 });
  return swapped;
}

interface Run {
  readonly type: number;
  readonly count: number;
  readonly position: number;
}

/** Returns the position behind the run. The depth is what the walk has allowed. */
function swapElements(bytes: Bytes, view: DataView<ArrayBuffer>, { type, count, position: start }: Run): number {
  const size = VALUE_BYTES[type] as number;
  let position = start;
  for (let i = 0; i < count; i++) {
    if (size > 0) {
      reverse(bytes, position, size);
      position += size;
    } else if (type === STRING_ID) {
      const length = takeLength(bytes, view, position);
      position += 8 + length;
    } else {
      const elementType = view.getUint32(position, false);
      reverse(bytes, position, 4);
      const length = takeLength(bytes, view, position + 4);
      position = swapElements(bytes, view, { type: elementType, count: length, position: position + 12 });
    }
  }
  return position;
}

/** The walk has seen that the length fits the file, so it is exact as a number. */
function takeLength(bytes: Bytes, view: DataView<ArrayBuffer>, position: number): number {
  const length = view.getUint32(position, false) * 0x1_0000_0000 + view.getUint32(position + 4, false);
  reverse(bytes, position, 8);
  return length;
}

function reverse(bytes: Bytes, start: number, byteLength: number): void {
  bytes.subarray(start, start + byteLength).reverse();
}
