import type { Bytes } from "../../base/bytes.ts";
import { decodeUtf8, encodeUtf8 } from "../../base/text.ts";

/**
 * The journal of an unfinished file: one line of text that says which version of which file it is, then a record of
 * fixed length for every piece that arrived. Nothing in it is believed without reading the piece again: a record names
 * the digest that the piece must have, so data and records may reach the disk in any order.
 */

/** Begins every journal; the digit is the version of this layout. */
const MAGIC = "tare-pull 1 ";
/** Bytes of BLAKE3 kept for a piece: chance does not hit 128 bits. */
export const CHECK_BYTES = 16;
/** Index (u32), digest, and the XOR of all words before as a guard against torn writes. */
const RECORD_BYTES = 4 + CHECK_BYTES + 4;
/** No identity is longer: an ETag and two numbers. */
const MAX_HEADER_BYTES = 4096;

/** A piece that was written. */
export interface JournalRecord {
  readonly index: number;
  readonly check: Bytes;
}

/** What a journal says. */
export interface Journal {
  readonly identity: string;
  readonly records: readonly JournalRecord[];
  /** Where the sound part ends: a process that died may have left half a record. */
  readonly byteLength: number;
}

/** The line that a journal begins with. */
export function encodeJournalHeader(identity: string): Bytes {
  return encodeUtf8(`${MAGIC}${JSON.stringify(identity)}\n`);
}

/** `check` is the beginning of the piece's digest. */
export function encodeRecord(index: number, check: Bytes): Bytes {
  const bytes = new Uint8Array(RECORD_BYTES);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, index, true);
  bytes.set(check.subarray(0, CHECK_BYTES), 4);
  view.setUint32(RECORD_BYTES - 4, guardOf(view, 0), true);
  return bytes;
}

/** Undefined where it is no journal of ours: then there is nothing to go on with. */
export function decodeJournal(bytes: Bytes): Journal | undefined {
  const lineEnd = bytes.subarray(0, MAX_HEADER_BYTES).indexOf(0x0a);
  const identity = lineEnd < 0 ? undefined : parseIdentity(decodeUtf8(bytes.slice(0, lineEnd)));
  if (identity === undefined) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const records: JournalRecord[] = [];
  let position = lineEnd + 1;
  for (; position + RECORD_BYTES <= bytes.byteLength; position += RECORD_BYTES) {
    if (view.getUint32(position + RECORD_BYTES - 4, true) !== guardOf(view, position)) break;
    const check = bytes.slice(position + 4, position + 4 + CHECK_BYTES);
    records.push({ index: view.getUint32(position, true), check });
  }
  return { identity, records, byteLength: position };
}

function parseIdentity(line: string | undefined): string | undefined {
  if (line === undefined || !line.startsWith(MAGIC)) return undefined;
  try {
    const identity: unknown = JSON.parse(line.slice(MAGIC.length));
    return typeof identity === "string" ? identity : undefined;
  } catch {
    return undefined; // torn while it was written
  }
}

/** Never zero for a record of zeros, which is what a hole in a file reads as. */
function guardOf(view: DataView, position: number): number {
  let guard = 0x7461_7265; // "tare"
  for (let i = 0; i < RECORD_BYTES - 4; i += 4)
    guard = Math.imul(guard ^ view.getUint32(position + i, true), 0x01000193);
  return guard >>> 0;
}
