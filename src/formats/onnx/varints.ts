import type { Bytes } from "../../base/bytes.ts";
import { FormatError, type Location } from "../../base/errors.ts";

/** Signed 64-bit values of packed varints; refuses one that does not end. */
export function decodeVarints(bytes: Bytes, at: Location): readonly bigint[] {
  const values: bigint[] = [];
  for (let position = 0; position < bytes.byteLength; ) {
    let value = 0n;
    let shift = 0n;
    let byte = 0x80;
    while (byte >= 0x80) {
      const next = bytes[position++];
      if (next === undefined || shift > 63n) throw unended(at);
      byte = next;
      value |= BigInt(byte & 0x7f) << shift;
      shift += 7n;
    }
    values.push(BigInt.asIntN(64, value));
  }
  return values;
}

/** The lowest 32 bits of every packed varint, for the types that have no more; cheaper than whole values. */
export function decodeVarints32(bytes: Bytes, count: number, at: Location): Uint32Array<ArrayBuffer> {
  const values = new Uint32Array(count);
  let position = 0;
  let found = 0;
  while (position < bytes.byteLength) {
    const start = position;
    let value = 0;
    let byte = 0x80;
    while (byte >= 0x80) {
      const next = bytes[position];
      if (next === undefined || position - start >= 10) throw unended(at);
      byte = next;
      if (position - start < 5) value |= (byte & 0x7f) << (7 * (position - start));
      position++;
    }
    if (found < count) values[found] = value;
    found++;
  }
  if (found !== count) throw wrongCount(count, found, at);
  return values;
}

/** The list has another number of values than the shape has. */
export function wrongCount(wanted: number, found: number, at: Location): FormatError {
  const message = `Cannot read ONNX ${at.path ?? "data"}: must hold ${wanted} values, found ${found}`;
  return new FormatError("format/onnx.data-length", message, at);
}

function unended(at: Location): FormatError {
  const message = `Cannot read ONNX ${at.path ?? "data"}: a number must end within ten bytes and inside its message`;
  return new FormatError("format/onnx.varint", message, at);
}
