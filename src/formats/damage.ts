import type { Bytes } from "../base/bytes.ts";
import { FormatError, LimitError, withHint } from "../base/errors.ts";
import type { Head } from "../model/format.ts";

/**
 * What the way here did to a file, as its first bytes show it. A reader names the place where it stumbles; a user wants
 * to know why, and that another copy helps.
 */

const AGAIN = "get the file again";
const UNFILLED = `If the download was interrupted, or its room was reserved and never filled, ${AGAIN}`;

/** So few zeros are an ordinary number. */
const MIN_ZEROS = 32;

/** By chance, this many line feeds follow a carriage return once in four billion files. */
const MIN_LINE_ENDS = 4;

/** The error for a file whose first bytes are all zero; undefined if they are not. */
export function zerosOnly({ bytes, byteLength }: Head, label: string): FormatError | undefined {
  if (startOfZeros(bytes) > 0) return undefined;
  const all = bytes.byteLength === byteLength ? `all ${byteLength} bytes` : `the first ${bytes.byteLength} bytes`;
  const at = { source: label, offset: 0 };
  return new FormatError("format/zeros", `Cannot open: ${all} are zero`, at, { hint: UNFILLED });
}

/** The error of a reader with what explains it. */
export function explainDamage(error: unknown, { bytes }: Head, label: string): unknown {
  if (!(error instanceof FormatError || error instanceof LimitError)) return error;
  const lineEnd = firstChangedLineEnd(bytes);
  if (lineEnd !== undefined) {
    const message = "Cannot open: a carriage return is before every line feed: line ends were changed (CRLF)";
    const hint = `Git or FTP took the file for text on the way: ${AGAIN}, as binary`;
    return new FormatError("format/line-ends", message, { source: label, offset: lineEnd }, { hint, cause: error });
  }
  const replaced = firstReplacedByte(bytes);
  if (replaced !== undefined) {
    const message =
      "Cannot open: bytes that are no UTF-8 were replaced by the character U+FFFD: the file was taken for text";
    const hint = `A program read it as text and wrote it again: ${AGAIN}, as binary`;
    return new FormatError("format/text-damage", message, { source: label, offset: replaced }, { hint, cause: error });
  }
  const zeros = startOfZeros(bytes);
  // Weights may be zero too. A reader that stumbles long before the zeros has another reason; where it stumbles over
  // them, it may name the number before.
  if (bytes.byteLength - zeros < MIN_ZEROS || (error.at.offset ?? 0) < zeros - 8) return error;
  return withHint(error, `From byte ${zeros} on, everything is zero. ${UNFILLED}`);
}

/** Where the zeros at the end begin. */
function startOfZeros(bytes: Bytes): number {
  let start = bytes.byteLength;
  while (start > 0 && bytes[start - 1] === 0) start--;
  return start;
}

/** Undefined for text, which may have such line ends, and where one line feed has no carriage return before it. */
function firstChangedLineEnd(bytes: Bytes): number | undefined {
  if (!bytes.includes(0)) return undefined;
  let count = 0;
  for (let at = bytes.indexOf(0x0a); at >= 0; at = bytes.indexOf(0x0a, at + 1)) {
    if (bytes[at - 1] !== 0x0d) return undefined;
    count++;
  }
  return count >= MIN_LINE_ENDS ? bytes.indexOf(0x0d) : undefined;
}

/** In a binary file, the three bytes of U+FFFD are this frequent only if a decoder of text put them there. */
const REPLACED_SHARE = 1 / 64;
const MIN_REPLACED = 16;

/** Where a binary file that was decoded and encoded as UTF-8 was changed first; undefined for others. */
function firstReplacedByte(bytes: Bytes): number | undefined {
  if (!bytes.includes(0)) return undefined;
  let count = 0;
  let first: number | undefined;
  for (let at = bytes.indexOf(0xef); at >= 0; at = bytes.indexOf(0xef, at + 1)) {
    if (bytes[at + 1] !== 0xbf || bytes[at + 2] !== 0xbd) continue;
    first ??= at;
    count++;
  }
  return count >= MIN_REPLACED && count >= bytes.byteLength * REPLACED_SHARE ? first : undefined;
}
