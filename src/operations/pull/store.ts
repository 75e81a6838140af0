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

/** The folder that a pull fills. Paths are relative, with forward slashes, and were checked. */
export interface PullStore {
  /** Shown in errors. */
  readonly label: string;
  /** Undefined where there is no such file. */
  look(path: string): Promise<LocalFile | undefined>;
  /** Opens a file that is in place. */
  open(path: string): Promise<Source>;
  /** The file under construction; what an earlier run left is kept. */
  openPartial(path: string): Promise<PartialFile>;
  /** Bytes that the folder has room for; undefined where nothing tells. */
  freeBytes(): Promise<number | undefined>;
  /** Puts a small file in place, all or nothing. */
  replace(path: string, bytes: Bytes): Promise<void>;
  /** What `keepReceipt` was given last; undefined where there is none. */
  readReceipt(): Promise<Bytes | undefined>;
  keepReceipt(bytes: Bytes): Promise<void>;
  /**
   * A seal over a file that is in place, as it is now, and facts about it. Only this user on this machine can make it;
   * undefined where nobody can, or there is no such file.
   */
  seal(path: string, facts: readonly string[]): Promise<string | undefined>;
  close(): Promise<void>;
}

/** A file under construction with the journal beside it: both outlive the process, whatever ends it. */
export interface PartialFile {
  /** Tells this very file, made here, from one that came with a folder; undefined where nothing can. */
  readonly seal: string | undefined;
  /** Everything that was recorded; empty where nothing was. */
  readJournal(): Promise<Bytes>;
  /** Forgets what was written and recorded, and begins a journal with `header`. */
  reset(header: Bytes): Promise<void>;
  /** Cuts a torn end off the journal. */
  trimJournal(byteLength: number): Promise<void>;
  /** Writes anywhere, several at a time. The caller leaves `bytes` untouched until it settles. */
  write(offset: number, bytes: Bytes): Promise<void>;
  /** Appends to the journal; calls land in order. */
  record(bytes: Bytes): Promise<void>;
  /** What was written so far, `byteLength` long. */
  reopen(byteLength: number): Promise<Source>;
  /** Makes the file durable, then visible under its name in place of what was there, and removes the journal. */
  publish(byteLength: number): Promise<void>;
  /** Removes what was written and recorded. */
  discard(): Promise<void>;
  close(): Promise<void>;
}

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
interface JournalRecord {
  readonly index: number;
  readonly check: Bytes;
}

/** What a journal says. */
interface Journal {
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

/** What is known about a file that a pull has put in place. */
export interface ReceiptEntry {
  /** Where it came from, without what must not be written down. */
  readonly from: string;
  readonly byteLength: number;
  /** Of the local file; another one means that somebody changed it since. */
  readonly stamp: string;
  readonly etag?: string | undefined;
  /** Where redirects led when the file with that tag came. */
  readonly via?: string | undefined;
  readonly sha256?: string | undefined;
  /** Shows that this machine wrote the entry: what others wrote is no reason to believe anything. */
  readonly seal?: string | undefined;
}

/** The files that pulls have put into one folder, so that a repeated pull asks instead of fetching. */
export type Receipt = Map<string, ReceiptEntry>;

/** Unknown or damaged content is an empty receipt: then everything is looked at afresh. */
export function parseReceipt(bytes: Bytes | undefined): Receipt {
  const receipt: Receipt = new Map();
  const text = bytes === undefined ? undefined : decodeUtf8(bytes);
  if (text === undefined) return receipt;
  let root: unknown;
  try {
    root = JSON.parse(text);
  } catch {
    return receipt; // cut off or edited: it only ever saved work
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
  const { from, byteLength, stamp, etag, via, sha256, seal } = value;
  if (typeof from !== "string" || !Number.isSafeInteger(byteLength) || typeof stamp !== "string") return undefined;
  return {
    from,
    byteLength: byteLength as number,
    stamp,
    // It is sent to the server: nothing but an entity-tag may be.
    ...(typeof etag === "string" && strongTag({ etag, lastModified: undefined }) !== undefined ? { etag } : {}),
    ...(typeof via === "string" ? { via } : {}),
    ...(typeof sha256 === "string" && /^[0-9a-f]{64}$/.test(sha256) ? { sha256 } : {}),
    ...(typeof seal === "string" ? { seal } : {}),
  };
}

/** What the seal of an entry covers beside the file itself. */
export function sealedFacts({ from, etag, via, sha256 }: ReceiptEntry): string[] {
  return [from, etag ?? "", sha256 ?? "", ...(via === undefined ? [] : [via])];
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
