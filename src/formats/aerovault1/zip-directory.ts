import type { Bytes } from "../../base/bytes.ts";
import { FormatError, type Location, UnsupportedError } from "../../base/errors.ts";
import { decodeUtf8, printable } from "../../base/text.ts";
import type { Steps } from "../../base/turns.ts";
import { type Extent, findOverlap } from "../../bytes/extents.ts";
import type { Source } from "../../bytes/source.ts";
import { Cursor } from "../../struct/cursor.ts";
import {
  CENTRAL_ROW_BYTES,
  type CentralRow,
  centralRow,
  END_BYTES,
  endRecord,
  FLAG,
  IN_ZIP64_16,
  IN_ZIP64_32,
  KNOWN_FLAGS,
  LOCAL_HEADER_BYTES,
  LOCATOR_BYTES,
  LOCATOR_SIGNATURE,
  MAX_EXPANSION,
  METHOD,
  ZIP64_END_BYTES,
  zip64End,
  zip64Locator,
} from "./layout.ts";
import { WINZIP_BYTES } from "./winzip-aes.ts";

/** A row of the directory, checked by itself. */
export interface ZipRow {
  /** Without the slash at the end that marks a directory in a ZIP. */
  readonly path: string;
  readonly type: "file" | "directory";
  /** As stored, for comparison with the local header's. */
  readonly name: Bytes;
  readonly flags: number;
  readonly method: number;
  readonly crc: number;
  readonly size: number;
  readonly compressedSize: number;
  readonly localOffset: number;
  /** Length of the extra fields here; those of the local header usually have the same length. */
  readonly extraBytes: number;
  /** Absent for directories. */
  readonly aes: AesField | undefined;
  /** Milliseconds since 1970, if known. */
  readonly modified: number | undefined;
  /** Where the row is. */
  readonly at: Location;
}

/** Decodes and checks every row; `bytes` holds the whole directory. */
export function* decodeDirectory(bytes: Bytes, place: DirectoryPlace, source: string): Steps<readonly ZipRow[]> {
  const rows: ZipRow[] = [];
  let position = 0;
  for (let i = 0; i < place.rows; i++) {
    const at = { source, offset: place.offset + position };
    const row = centralRow.decode(bytes, at, { start: position, code: "format/aerovault1.directory" });
    const nameStart = position + CENTRAL_ROW_BYTES;
    const extraStart = nameStart + row.nameLength;
    const end = extraStart + row.extraLength + row.commentLength;
    if (end > bytes.byteLength) throw directoryFault("a row must end within it", at);
    const name = bytes.subarray(nameStart, extraStart);
    rows.push(readRow(row, { name, extra: bytes.subarray(extraStart, extraStart + row.extraLength) }, at));
    position = end;
    yield;
  }
  if (position !== bytes.byteLength) {
    throw directoryFault(`${place.rows} rows must fill it`, { source, offset: place.offset + position });
  }
  checkExtents(rows, place.offset);
  return rows;
}

interface RowTail {
  readonly name: Bytes;
  readonly extra: Bytes;
}

function readRow(row: CentralRow, { name, extra }: RowTail, at: Location): ZipRow {
  const text = decodeUtf8(name);
  if (text === undefined) {
    throw new FormatError("format/aerovault1.path", "Cannot accept the name of an entry: it must be UTF-8", at);
  }
  const unknown = row.flags & ~KNOWN_FLAGS;
  if (unknown !== 0 || row.disk !== 0) {
    const problem =
      unknown === 0 ? "it must be on this disk" : `its flags 0x${row.flags.toString(16)} are not all known`;
    throw new UnsupportedError("unsupported/aerovault1.entry", `Cannot read "${printable(text)}": ${problem}`, at);
  }
  checkKind(row, text, at);
  const fields = decodeExtra(extra, { ...at, path: "extra" });
  const type = text.endsWith("/") ? "directory" : "file";
  const long = resolveLong(row, fields.zip64, { ...at, path: "extra" });
  const { flags, method, crc } = row;
  const path = type === "directory" ? text.slice(0, -1) : text;
  const modified = fields.mtime === undefined ? dosTime(row.date, row.time) : 1000 * fields.mtime;
  const read = {
    path,
    type,
    name,
    flags,
    method,
    crc,
    ...sizesOf(long),
    extraBytes: extra.byteLength,
    aes: fields.aes,
    modified,
    at,
  } as const;
  if (type === "file") checkFile(read);
  else if (read.size !== 0) throw directoryFault(`the directory "${printable(path)}" must have no bytes`, at);
  return read;
}

function sizesOf({
  size,
  compressedSize,
  localOffset,
}: Pick<ZipRow, "size" | "compressedSize" | "localOffset">): Pick<ZipRow, "size" | "compressedSize" | "localOffset"> {
  return { size, compressedSize, localOffset };
}

/** The kind of a file, in the upper half of what Unix systems write: regular, directory, or not stated. */
const KIND_BITS = 0o170000;
const ALLOWED_KINDS: ReadonlySet<number> = new Set([0, 0o100000, 0o040000]);

/** A vault holds no links or devices: a careless extractor would follow a link. */
function checkKind({ versionMadeBy, externalAttributes }: CentralRow, name: string, at: Location): void {
  const kind = (externalAttributes >>> 16) & KIND_BITS;
  // 3 is Unix, 19 is OS X; on other systems these bits mean something else.
  if (![3, 19].includes(versionMadeBy >>> 8) || ALLOWED_KINDS.has(kind)) return;
  const message = `Cannot accept "${printable(name)}" in a vault: it must be a file or a directory, found a link or a device`;
  throw new FormatError("format/aerovault1.kind", message, at);
}

/** Every file of a vault is encrypted, and none is longer than its stored bytes allow. */
function checkFile({ path, flags, method, aes, crc, size, compressedSize, at }: ZipRow): void {
  const named = `"${printable(path)}"`;
  if ((flags & FLAG.encrypted) === 0 || method !== METHOD.winzip || aes === undefined) {
    const message = `Cannot accept ${named} in a vault: it must be encrypted with AES, found method ${method}`;
    throw new FormatError("format/aerovault1.unencrypted", message, at);
  }
  if (aes.version === 2 && crc !== 0) {
    const message = `Cannot accept ${named} in a vault: AE-2 must keep no CRC, found 0x${crc.toString(16)}`;
    throw new FormatError("format/aerovault1.directory", message, at);
  }
  const payload = compressedSize - WINZIP_BYTES;
  const most = aes.method === "stored" ? payload : payload * MAX_EXPANSION;
  const isRight = aes.method === "stored" ? size === payload : size <= most;
  if (payload >= 0 && isRight) return;
  const message = `Cannot accept ${named} in a vault: ${compressedSize} stored bytes cannot hold ${size}`;
  throw new FormatError("format/aerovault1.size", message, at);
}

/**
 * Uses only what is certain without reading local headers. With overlapping entries a small file could claim huge
 * content.
 */
function checkExtents(rows: readonly ZipRow[], directoryOffset: number): void {
  const extents = rows.map(({ path, localOffset, name, compressedSize, at }) => {
    const byteLength = LOCAL_HEADER_BYTES + name.byteLength + compressedSize;
    return { path, at, offset: localOffset, byteLength };
  });
  const fault = ({ path, at }: { path: string; at: Location } & Extent, problem: string): FormatError =>
    new FormatError("format/aerovault1.overlap", `Cannot accept "${printable(path)}" in a vault: ${problem}`, at);
  for (const extent of extents) {
    if (extent.byteLength <= directoryOffset && extent.offset <= directoryOffset - extent.byteLength) continue;
    throw fault(extent, `it must end before the directory at ${directoryOffset}`);
  }
  const pair = findOverlap(extents);
  if (pair !== undefined) throw fault(pair[1], `it must not share bytes with "${printable(pair[0].path)}"`);
}

/** The date of writers that know no time. */
const NO_DATE = 0x21;

/** MS-DOS's two numbers, read as UTC, as the Rust crate writes them; undefined without a valid date. */
function dosTime(date: number, time: number): number | undefined {
  if (date === 0 || (date === NO_DATE && time === 0)) return undefined;
  const [year, month, day] = [1980 + (date >>> 9), (date >>> 5) & 15, date & 31];
  const milliseconds = Date.UTC(year, month - 1, day, time >>> 11, (time >>> 5) & 63, (time & 31) * 2);
  return month >= 1 && month <= 12 && day >= 1 ? milliseconds : undefined;
}

function directoryFault(problem: string, at: Location): FormatError {
  return new FormatError("format/aerovault1.directory", `Cannot read ZIP directory: ${problem}`, at);
}

/** Where the directory of a ZIP is. */
export interface DirectoryPlace {
  readonly offset: number;
  readonly byteLength: number;
  readonly rows: number;
}

type Counts = Readonly<Record<"rowsHere" | "rows" | "directoryBytes" | "directoryOffset", number>>;

const CODE = "format/aerovault1.end";

/**
 * Finds the directory. Stricter than ZIP: no comment, one disk, no bytes between the directory and the end records,
 * nothing before the first entry, and if a number appears twice, both must be the same.
 */
export async function readDirectoryPlace(source: Source, signal?: AbortSignal): Promise<DirectoryPlace> {
  const label = source.label;
  const endOffset = source.byteLength - END_BYTES;
  if (endOffset < 0) {
    const message = `Cannot read ZIP end record: must have ${END_BYTES} bytes, found ${source.byteLength}`;
    throw new FormatError(CODE, message, { source: label, offset: 0 }, { hint: "The file is cut short; get it again" });
  }
  const tailOffset = Math.max(0, endOffset - LOCATOR_BYTES);
  const tail = await source.read(tailOffset, source.byteLength - tailOffset, { signal });
  const at = { source: label, offset: endOffset };
  const end = endRecord.decode(tail, at, { start: endOffset - tailOffset, code: CODE });
  const view = new DataView(tail.buffer, tail.byteOffset, tail.byteLength);
  const isLong = endOffset - tailOffset === LOCATOR_BYTES && view.getUint32(0, true) === LOCATOR_SIGNATURE;
  if (!isLong || !hasMarks(end)) return checkPlace(end, endOffset, at);
  const locatorOffset = endOffset - LOCATOR_BYTES;
  const locator = zip64Locator.decode(tail, { ...at, offset: locatorOffset }, { code: CODE });
  return readLongPlace(source, { end, locatorOffset, endOffset: locator.endOffset }, signal);
}

function hasMarks({ rows, directoryBytes, directoryOffset }: Counts): boolean {
  return rows === IN_ZIP64_16 || directoryBytes === IN_ZIP64_32 || directoryOffset === IN_ZIP64_32;
}

interface LongEnd {
  readonly end: Counts;
  readonly locatorOffset: number;
  readonly endOffset: number;
}

async function readLongPlace(
  source: Source,
  { end, locatorOffset, endOffset }: LongEnd,
  signal: AbortSignal | undefined,
): Promise<DirectoryPlace> {
  const at = { source: source.label, offset: locatorOffset };
  if (endOffset !== locatorOffset - ZIP64_END_BYTES) {
    const message = `Cannot read ZIP64 end record: must begin ${ZIP64_END_BYTES} bytes before its locator, found it at ${endOffset}`;
    throw new FormatError(CODE, message, at);
  }
  const place = { ...at, offset: endOffset };
  const bytes = await source.read(endOffset, ZIP64_END_BYTES, { signal });
  const long = zip64End.decode(bytes, place, { code: CODE });
  for (const name of ["rows", "directoryBytes", "directoryOffset"] as const) {
    const mark = name === "rows" ? IN_ZIP64_16 : IN_ZIP64_32;
    if (end[name] === mark || end[name] === long[name]) continue;
    const message = `Cannot read ZIP end record: ${name} must be the same in both records, found ${end[name]} and ${long[name]}`;
    throw new FormatError(CODE, message, place);
  }
  return checkPlace(long, endOffset, place);
}

/** The directory must end at `limit`. */
function checkPlace(
  { rowsHere, rows, directoryOffset: offset, directoryBytes: byteLength }: Counts,
  limit: number,
  at: Location,
): DirectoryPlace {
  const fault = (problem: string): FormatError => new FormatError(CODE, `Cannot read ZIP end record: ${problem}`, at);
  if (rowsHere !== rows) throw fault(`all ${rows} rows must be on this disk, found ${rowsHere}`);
  // By the difference: a sum of two numbers from a file may not be exact.
  if (byteLength > limit || offset !== limit - byteLength) {
    throw fault(`the directory must end at ${limit}, found ${byteLength} bytes at ${offset}`);
  }
  if (rows * CENTRAL_ROW_BYTES > byteLength) throw fault(`${rows} rows must fit into ${byteLength} bytes`);
  return { offset, byteLength, rows };
}

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
  /** As stored, for comparison with the local header's. */
  readonly bytes: Bytes;
}

export interface ExtraFields {
  readonly aes: AesField | undefined;
  readonly zip64: Bytes | undefined;
  /** Seconds since 1970. */
  readonly mtime: number | undefined;
}

/** Splits extra fields. Refuses a truncated one, and a known one that appears twice; skips others. */
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

/** The modification time, if the field has it. */
function decodeTime(bytes: Bytes | undefined): number | undefined {
  if (bytes === undefined || bytes.byteLength < 5 || ((bytes[0] as number) & 1) === 0) return undefined;
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getInt32(1, true);
}

/** The three numbers that a row may move to its ZIP64 field. The field has only those, in this order. */
export interface LongValues {
  readonly size: number;
  readonly compressedSize: number;
  readonly localOffset: number;
}

function resolveLong(values: LongValues, zip64: Bytes | undefined, at: Location): LongValues {
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
