import type { Bytes } from "../../base/bytes.ts";
import { FormatError, type Location, UnsupportedError } from "../../base/errors.ts";
import { decodeUtf8, printable } from "../../base/text.ts";
import { type Extent, findOverlap } from "../../bytes/extents.ts";
import {
  CENTRAL_ROW_BYTES,
  type CentralRow,
  centralRow,
  FLAG,
  KNOWN_FLAGS,
  LOCAL_HEADER_BYTES,
  MAX_EXPANSION,
  METHOD,
} from "./layout.ts";
import { WINZIP_BYTES } from "./winzip-aes.ts";
import type { DirectoryPlace } from "./zip-end.ts";
import { type AesField, decodeExtra, resolveLong } from "./zip-extra.ts";

/** A row of the directory, judged by itself. */
export interface ZipRow {
  /** Without the slash at the end by which ZIP tells a directory. */
  readonly path: string;
  readonly type: "file" | "directory";
  /** As stored, to be compared with the local header's. */
  readonly name: Bytes;
  readonly flags: number;
  readonly method: number;
  readonly crc: number;
  readonly size: number;
  readonly compressedSize: number;
  readonly localOffset: number;
  /** Of the extra fields here; those of the local header are usually as long. */
  readonly extraBytes: number;
  /** Absent for directories. */
  readonly aes: AesField | undefined;
  /** Milliseconds since 1970, where one is known. */
  readonly modified: number | undefined;
  /** Where the row stands. */
  readonly at: Location;
}

/** Decodes and judges every row; `bytes` are the whole directory. */
export function decodeDirectory(bytes: Bytes, place: DirectoryPlace, source: string): readonly ZipRow[] {
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

/** The kind of a file, in the upper half of what Unix systems write: regular, directory, or not told. */
const KIND_BITS = 0o170000;
const ALLOWED_KINDS: ReadonlySet<number> = new Set([0, 0o100000, 0o040000]);

/** Links and devices are no files of a vault: a link would be followed by whoever extracts it without looking. */
function checkKind({ versionMadeBy, externalAttributes }: CentralRow, name: string, at: Location): void {
  const kind = (externalAttributes >>> 16) & KIND_BITS;
  // 3 is Unix, 19 is OS X; other systems mean other things by these bits.
  if (![3, 19].includes(versionMadeBy >>> 8) || ALLOWED_KINDS.has(kind)) return;
  const message = `Cannot accept "${printable(name)}" in a vault: it must be a file or a directory, found a link or a device`;
  throw new FormatError("format/aerovault1.kind", message, at);
}

/** Every file of a vault is encrypted, and none is longer than its stored bytes can be. */
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

/** By what is certain without reading local headers: overlapping entries are how a small file claims to hold much. */
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

/** What writers put that know no time. */
const NO_DATE = 0x21;

/** MS-DOS's two numbers, taken for UTC as the Rust crate writes them; undefined for none and for no date at all. */
function dosTime(date: number, time: number): number | undefined {
  if (date === 0 || (date === NO_DATE && time === 0)) return undefined;
  const [year, month, day] = [1980 + (date >>> 9), (date >>> 5) & 15, date & 31];
  const milliseconds = Date.UTC(year, month - 1, day, time >>> 11, (time >>> 5) & 63, (time & 31) * 2);
  return month >= 1 && month <= 12 && day >= 1 ? milliseconds : undefined;
}

function directoryFault(problem: string, at: Location): FormatError {
  return new FormatError("format/aerovault1.directory", `Cannot read ZIP directory: ${problem}`, at);
}
