import type { Bytes } from "../../../base/bytes.ts";
import { FormatError, IntegrityError, type TareError } from "../../../base/errors.ts";
import { fileFooter, MAGIC_END } from "./layout.ts";

/** What the last 16 bytes say, and what is wrong with them; the CRC is for whoever has the other bytes. */
export interface Footer {
  readonly crc32: number;
  readonly problem: TareError | undefined;
}

/** `bytes` are the last 16 of a file of `byteLength`. */
export function decodeFooter(bytes: Bytes, byteLength: number, source: string): Footer {
  const offset = byteLength - fileFooter.byteLength;
  const at = { source, offset, path: "footer" };
  // Field by field: a damaged file_size must not hide behind an error about large numbers.
  const magicEnd = String.fromCharCode(...bytes.subarray(4, 8));
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const crc32 = view.getUint32(0, true);
  if (magicEnd !== MAGIC_END) {
    const message = `Cannot find the APR footer: magic_end must be "${MAGIC_END}", found ${JSON.stringify(magicEnd)}`;
    const hint = "The file is cut short, or something was appended to it";
    return { crc32, problem: new FormatError("format/apr.footer", message, { ...at, offset: offset + 4 }, { hint }) };
  }
  const fileSize = view.getBigUint64(8, true);
  if (fileSize === BigInt(byteLength)) return { crc32, problem: undefined };
  const message = `file_size must be ${byteLength}, the length of the file, found ${fileSize}`;
  const path = "footer.file_size";
  return { crc32, problem: new FormatError("format/apr.file-size", message, { source, offset: offset + 8, path }) };
}

/** What a manifest may say of a file, as far as it is known. */
export interface FileChecksums {
  /** Of everything before the footer: found where the file was read, else as the footer says. */
  readonly crc: number;
  /** Of the whole file. Where the footer is right it depends on nothing but the length. */
  readonly fileCrc: number;
}

/** The finding for bytes that are not those that were written. */
export function crcError(wanted: number, found: number, source: string, byteLength: number): IntegrityError {
  const covered = byteLength - fileFooter.byteLength;
  const message = `The file is damaged: CRC-32 of its first ${covered} bytes must be ${hex(wanted)}, found ${hex(found)}`;
  const at = { source, offset: covered, path: "footer.crc32" };
  return new IntegrityError("integrity/apr.crc", message, at, { hint: "Download the file again" });
}

/** Eight lower-case digits. */
export function hex(crc: number): string {
  return crc.toString(16).padStart(8, "0");
}
