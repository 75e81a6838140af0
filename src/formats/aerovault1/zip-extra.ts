import type { Bytes } from "../../base/bytes.ts";
import { FormatError, type Location, UnsupportedError } from "../../base/errors.ts";
import { Cursor } from "../../struct/cursor.ts";
import { IN_ZIP64_32, METHOD } from "./layout.ts";

/** Ids of extra fields. */
const ZIP64 = 0x0001;
const TIMES = 0x5455;
const WINZIP_AES = 0x9901;
/** Strength 3 of WinZip's field: AES-256. */
const AES_256 = 3;
const AES_FIELD_BYTES = 7;

/** WinZip's field (docs/formats/aerovault1.md#encryption). */
export interface AesField {
  /** AE-1 keeps the CRC of the plain bytes, AE-2 does not. */
  readonly version: 1 | 2;
  readonly method: "stored" | "deflated";
  /** As stored, to be compared with the local header's. */
  readonly bytes: Bytes;
}

export interface ExtraFields {
  readonly aes: AesField | undefined;
  readonly zip64: Bytes | undefined;
  /** Seconds since 1970. */
  readonly mtime: number | undefined;
}

/** Splits extra fields. One that is cut short, and one of ours that comes twice, is refused; others are passed over. */
export function decodeExtra(bytes: Bytes, at: Location): ExtraFields {
  const code = "format/aerovault1.extra";
  const cursor = new Cursor(bytes, { source: at.source, base: at.offset ?? 0, code, what: "ZIP extra field" });
  const found = new Map<number, Bytes>();
  while (cursor.remaining > 0) {
    const place = cursor.at();
    const id = cursor.u16();
    const field = cursor.bytes(cursor.u16());
    if (found.has(id) && [ZIP64, TIMES, WINZIP_AES].includes(id)) {
      const message = `Cannot read ZIP extra field: 0x${id.toString(16).padStart(4, "0")} must be there once, found it twice`;
      throw new FormatError(code, message, place);
    }
    found.set(id, field);
  }
  const aes = found.get(WINZIP_AES);
  return {
    aes: aes === undefined ? undefined : decodeAes(aes, at),
    zip64: found.get(ZIP64),
    mtime: decodeTime(found.get(TIMES)),
  };
}

function decodeAes(bytes: Bytes, at: Location): AesField {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const vendor = String.fromCharCode(...bytes.subarray(2, 4));
  if (bytes.byteLength !== AES_FIELD_BYTES || vendor !== "AE") {
    const message = "Cannot read WinZip's encryption field: must have seven bytes and the vendor AE";
    throw new FormatError("format/aerovault1.extra", message, at);
  }
  const version = view.getUint16(0, true);
  const strength = view.getUint8(4);
  const method = view.getUint16(5, true);
  const isKnown = method === METHOD.stored || method === METHOD.deflated;
  if ((version !== 1 && version !== 2) || strength !== AES_256 || !isKnown) {
    const message = `Cannot decrypt ZIP entry: must be AE-1 or AE-2 with AES-256, stored or deflated, found version ${version}, strength ${strength}, method ${method}`;
    throw new UnsupportedError("unsupported/aerovault1.encryption", message, at);
  }
  return { version, method: method === METHOD.stored ? "stored" : "deflated", bytes };
}

/** The time of change, where the field has it. */
function decodeTime(bytes: Bytes | undefined): number | undefined {
  if (bytes === undefined || bytes.byteLength < 5 || ((bytes[0] as number) & 1) === 0) return undefined;
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getInt32(1, true);
}

/** The three numbers that a row may leave to its ZIP64 field, which has only those, in this order. */
export interface LongValues {
  readonly size: number;
  readonly compressedSize: number;
  readonly localOffset: number;
}

export function resolveLong(values: LongValues, zip64: Bytes | undefined, at: Location): LongValues {
  const names = (["size", "compressedSize", "localOffset"] as const).filter((name) => values[name] === IN_ZIP64_32);
  if (names.length === 0) return values;
  const options = {
    source: at.source,
    base: at.offset ?? 0,
    code: "format/aerovault1.extra",
    what: "ZIP64 field",
  } as const;
  const cursor = new Cursor(zip64 ?? new Uint8Array(0), options);
  return { ...values, ...Object.fromEntries(names.map((name) => [name, cursor.u64(name)])) };
}
