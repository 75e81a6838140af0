import type { Bytes } from "../../base/bytes.ts";
import { decodeUtf8, encodeUtf8 } from "../../base/text.ts";
import { strongTag } from "../../bytes/http/headers.ts";
import type { Source } from "../../bytes/source.ts";

/** A file that is in place. */
export interface LocalFile {
  readonly byteLength: number;
  /** Changes whenever the file does: size and time of the last write. */
  readonly stamp: string;
}

/**
 * What a pull may put its file in the place of: nothing, what was there when it looked, or whatever is there. A file that
 * someone else puts there meanwhile is not replaced.
 */
export type Replaced = LocalFile | "nothing" | "anything";

/** The folder that a pull fills. Paths are relative, with forward slashes, and already checked. */
export interface PullStore {
  /** Shown in errors. */
  readonly label: string;
  /** Undefined if there is no such file. */
  look(path: string): Promise<LocalFile | undefined>;
  /** Opens a file that is in place. */
  open(path: string): Promise<Source>;
  /** Throws if a file may be neither put nor replaced there: the caller reads it, or it is write-protected. */
  checkPlace?(path: string): Promise<void>;
  /** The file under construction; keeps what an earlier run left. */
  openPartial(path: string, replaced: Replaced): Promise<PartialFile>;
  /**
   * What a pull left beside a file that is in place, if it died before it removed its journal: "ours" if the journal
   * shows that the file was made here. Undefined if there is nothing.
   */
  findLeftover(path: string): Promise<"ours" | "unknown" | undefined>;
  /** Removes that journal. */
  dropLeftover(path: string): Promise<void>;
  /** Free bytes of the folder; undefined if they are not known. */
  freeBytes(): Promise<number | undefined>;
  /** Puts a small file in place, atomically. */
  put(path: string, bytes: Bytes, replaced: Replaced): Promise<void>;
  /** The bytes that `keepReceipt` got last; undefined if there are none. */
  readReceipt(): Promise<Bytes | undefined>;
  keepReceipt(bytes: Bytes): Promise<void>;
  /**
   * A seal over the current state of a file in place, and facts about it. Only this user on this machine can make it;
   * undefined if no seal is possible, or there is no such file.
   */
  seal(path: string, facts: readonly string[]): Promise<string | undefined>;
  close(): Promise<void>;
}

/** A file under construction with the journal next to it. Both survive the end of the process, whatever its cause. */
export interface PartialFile {
  /** Distinguishes this file, made here, from one that came with a folder; undefined if nothing can. */
  readonly seal: string | undefined;
  /** What was recorded, at most so many bytes of it; empty if there is nothing. */
  readJournal(maxBytes: number): Promise<Bytes>;
  /** Drops what was written and recorded, and starts a journal with `header`. */
  reset(header: Bytes): Promise<void>;
  /** Cuts a torn end off the journal. */
  trimJournal(byteLength: number): Promise<void>;
  /** Writes at any offset, several at a time. The caller must not change `bytes` until it settles. */
  write(offset: number, bytes: Bytes): Promise<void>;
  /** Appends to the journal, in the order of the calls. */
  record(bytes: Bytes): Promise<void>;
  /** The bytes written so far, `byteLength` long. */
  reopen(byteLength: number): Promise<Source>;
  /** Makes the file durable, then visible under its name, in place of what it replaces, and removes the journal. */
  publish(byteLength: number): Promise<void>;
  /** Removes what was written and recorded. */
  discard(): Promise<void>;
  close(): Promise<void>;
}

/**
 * The journal of an unfinished file: one line of text that identifies the version of the file, then a record of fixed
 * length for every piece that arrived. Nothing in it is believed without reading the piece again: a record has the
 * digest that the piece must have, so data and records may reach the disk in any order.
 */

/** The start of every journal; the digit is the version of this layout. */
const MAGIC = "tare-pull 1 ";
/** Bytes of BLAKE3 kept for a piece: 128 bits do not match by chance. */
export const CHECK_BYTES = 16;
/** Index (u32), digest, and the XOR of all words before as a guard against torn writes. */
const RECORD_BYTES = 4 + CHECK_BYTES + 4;
/** No identity is longer: an ETag and two numbers. */
export const MAX_HEADER_BYTES = 4096;

/** A piece that was written. */
interface JournalRecord {
  readonly index: number;
  readonly check: Bytes;
}

/** A decoded journal. */
interface Journal {
  readonly identity: string;
  readonly records: readonly JournalRecord[];
  /** End of the valid part: a process that died may have left half a record. */
  readonly byteLength: number;
}

/**
 * The longest journal of a file with so many pieces. A piece that was damaged on the disk is recorded once more when it
 * has come again; what is beyond this is fetched again.
 */
export function longestJournal(pieceCount: number): number {
  return MAX_HEADER_BYTES + 2 * pieceCount * RECORD_BYTES;
}

/** The first line of a journal. */
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

/** Undefined if it is not our journal; then there is nothing to continue. */
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
    return undefined; // torn during the write
  }
}

/** Never zero for a record of zeros, which is how a hole in a file reads. */
function guardOf(view: DataView, position: number): number {
  let guard = 0x7461_7265; // "tare"
  for (let i = 0; i < RECORD_BYTES - 4; i += 4)
    guard = Math.imul(guard ^ view.getUint32(position + i, true), 0x01000193);
  return guard >>> 0;
}

/** The facts of a file that a pull has put in place. */
export interface ReceiptEntry {
  /** Its address, without parts that must not be stored. */
  readonly from: string;
  readonly byteLength: number;
  /** Stamp of the local file; another one means that the file was changed since. */
  readonly stamp: string;
  readonly etag?: string | undefined;
  /** Address to which redirects led when the file with that tag was fetched. */
  readonly via?: string | undefined;
  readonly sha256?: string | undefined;
  /** The checksum that an index stated and the file was compared with. */
  readonly crc32?: number | undefined;
  /** Shows that this machine wrote the entry. Entries from elsewhere are not trusted. */
  readonly seal?: string | undefined;
}

/** The files that pulls have put into one folder, so that a repeated pull asks the server instead of fetching. */
export type Receipt = Map<string, ReceiptEntry>;

/** Unknown or damaged content gives an empty receipt; then everything is checked again. */
export function parseReceipt(bytes: Bytes | undefined): Receipt {
  const receipt: Receipt = new Map();
  const text = bytes === undefined ? undefined : decodeUtf8(bytes);
  if (text === undefined) return receipt;
  let root: unknown;
  try {
    root = JSON.parse(text);
  } catch {
    return receipt; // cut off or edited: a receipt only saves work
  }
  const files = isObject(root) && root["version"] === 1 ? root["files"] : undefined;
  if (!isObject(files)) return receipt;
  for (const [path, value] of Object.entries(files)) {
    const entry = parseEntry(value);
    if (entry !== undefined) receipt.set(path, entry);
  }
  return receipt;
}

/** The text of a receipt. */
export function encodeReceipt(receipt: Receipt): Bytes {
  return encodeUtf8(`${JSON.stringify({ version: 1, files: Object.fromEntries(receipt) }, null, 1)}\n`);
}

function parseEntry(value: unknown): ReceiptEntry | undefined {
  if (!isObject(value)) return undefined;
  const { from, byteLength, stamp, etag, via, sha256, crc32, seal } = value;
  if (typeof from !== "string" || !Number.isSafeInteger(byteLength) || typeof stamp !== "string") return undefined;
  return {
    from,
    byteLength: byteLength as number,
    stamp,
    // It is sent to the server, so nothing but an entity-tag may pass.
    ...(typeof etag === "string" && strongTag({ etag, lastModified: undefined }) !== undefined ? { etag } : {}),
    ...(typeof via === "string" ? { via } : {}),
    ...(typeof sha256 === "string" && /^[0-9a-f]{64}$/.test(sha256) ? { sha256 } : {}),
    ...(typeof crc32 === "number" && Number.isInteger(crc32) ? { crc32 } : {}),
    ...(typeof seal === "string" ? { seal } : {}),
  };
}

/** What the seal of an entry covers in addition to the file itself. */
export function sealedFacts({ from, etag, via, sha256, crc32 }: ReceiptEntry): string[] {
  const more = [...(via === undefined ? [] : [via]), ...(crc32 === undefined ? [] : [`crc32 ${crc32}`])];
  return [from, etag ?? "", sha256 ?? "", ...more];
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
