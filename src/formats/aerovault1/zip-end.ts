import { FormatError, type Location } from "../../base/errors.ts";
import type { Source } from "../../bytes/source.ts";
import {
  CENTRAL_ROW_BYTES,
  END_BYTES,
  endRecord,
  IN_ZIP64_16,
  IN_ZIP64_32,
  LOCATOR_BYTES,
  LOCATOR_SIGNATURE,
  ZIP64_END_BYTES,
  zip64End,
  zip64Locator,
} from "./layout.ts";

/** Where the directory of a ZIP is. */
export interface DirectoryPlace {
  readonly offset: number;
  readonly byteLength: number;
  readonly rows: number;
}

type Counts = Readonly<Record<"rowsHere" | "rows" | "directoryBytes" | "directoryOffset", number>>;

const CODE = "format/aerovault1.end";

/**
 * Finds the directory. Stricter than ZIP: no comment, one disk, no bytes between the directory and the end records, nothing in
 * front of the first entry, and where a number stands twice both must be the same.
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
    const message = `Cannot read ZIP64 end record: must stand ${ZIP64_END_BYTES} bytes before its locator, found it at ${endOffset}`;
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

/** `limit` is where the directory must end. */
function checkPlace(
  { rowsHere, rows, directoryOffset: offset, directoryBytes: byteLength }: Counts,
  limit: number,
  at: Location,
): DirectoryPlace {
  const fault = (problem: string): FormatError => new FormatError(CODE, `Cannot read ZIP end record: ${problem}`, at);
  if (rowsHere !== rows) throw fault(`all ${rows} rows must be on this disk, found ${rowsHere}`);
  // By the difference: a sum of two numbers of a file may not be exact.
  if (byteLength > limit || offset !== limit - byteLength) {
    throw fault(`the directory must end at ${limit}, found ${byteLength} bytes at ${offset}`);
  }
  if (rows * CENTRAL_ROW_BYTES > byteLength) throw fault(`${rows} rows must fit into ${byteLength} bytes`);
  return { offset, byteLength, rows };
}
