import type { Bytes } from "../../../base/bytes.ts";
import { FormatError, type Location } from "../../../base/errors.ts";
import { checkedAdd } from "../../../base/integers.ts";
import { decodeUtf8, findInvalidUtf8, printable } from "../../../base/text.ts";
import type { Turns } from "../../../base/turns.ts";
import type { Extent } from "../../../bytes/extents.ts";
import type { Finding, Loss } from "../../../model/finding.ts";
import {
  CHUNK_FLAGS,
  CHUNK_NAMES,
  type ChunkNames,
  type FileHeader,
  FOURCC,
  HASH_BYTES,
  TOC_HASH_OFFSET,
  tocEntry,
  tocHeader,
} from "../layout.ts";

/** One chunk as the TOC lists it; `offset` and `byteLength` describe the stored payload. */
export interface Chunk extends Extent {
  readonly index: number;
  readonly fourcc: string;
  readonly flags: number;
  /** Bytes after decompression. */
  readonly ulen: number;
  readonly name: string;
}

/** Where the tables of a file are, and what the header says about them. */
interface TocPlace {
  readonly label: string;
  readonly fileBytes: number;
  readonly header: FileHeader;
}

/** The table of contents with its names; every extent is inside the file. */
export class Toc {
  readonly chunks: readonly Chunk[];
  readonly warnings: readonly Finding[];
  readonly #entries: Bytes;

  private constructor(chunks: readonly Chunk[], entries: Bytes, warnings: readonly Finding[]) {
    this.chunks = chunks;
    this.#entries = entries;
    this.warnings = warnings;
  }

  /** `bytes` holds the TOC header and exactly the number of entries that it announces. */
  static async decode(bytes: Bytes, names: Bytes, place: TocPlace, turns: Turns): Promise<Toc> {
    const { label, header } = place;
    const table = new StringTable(names, { label, offset: header.stringTableOffset });
    const chunks: Chunk[] = [];
    const count = (bytes.byteLength - tocHeader.byteLength) / tocEntry.byteLength;
    const reserved = new ReservedFields(place);
    reserved.look("header.reserved", 68, header.reserved);
    reserved.look("toc.reserved", header.tocOffset + 4, bytes.subarray(4, tocHeader.byteLength));
    for (let index = 0; index < count; index++) {
      const start = tocHeader.byteLength + index * tocEntry.byteLength;
      const path = (): string => `toc[${index}]`;
      chunks.push(decodeEntry(bytes, { index, start, table, place }));
      reserved.look(path, header.tocOffset + start + 40, bytes.subarray(start + 40, start + TOC_HASH_OFFSET));
      const turn = turns.step();
      if (turn !== undefined) await turn;
    }
    return new Toc(chunks, bytes, reserved.findings());
  }

  /** The TOC's BLAKE3-256 of a chunk's uncompressed bytes; a view. */
  hashOf(chunk: Chunk): Bytes {
    const start = tocHeader.byteLength + chunk.index * tocEntry.byteLength + TOC_HASH_OFFSET;
    return this.#entries.subarray(start, start + HASH_BYTES);
  }

  /** Where the names of chunks lie in the string table. */
  nameExtents(): Extent[] {
    const view = new DataView(this.#entries.buffer, this.#entries.byteOffset, this.#entries.byteLength);
    return this.chunks.map(({ index }) => {
      const start = tocHeader.byteLength + index * tocEntry.byteLength;
      return { offset: view.getUint32(start + 32, true), byteLength: view.getUint32(start + 36, true) };
    });
  }

  /** The first chunk of a type: the one that counts if there should be only one. */
  first(fourcc: string): Chunk | undefined {
    return this.chunks.find((chunk) => chunk.fourcc === fourcc);
  }
}

/** Whether the payload is a zstd frame. */
export function isCompressed(chunk: Chunk): boolean {
  return (chunk.flags & CHUNK_FLAGS.COMPRESSED_ZSTD) !== 0;
}

/** For messages: `TIDX "tensors"`. */
export function chunkTitle(chunk: Chunk): string {
  return `${printable(chunk.fourcc)} "${printable(chunk.name)}"`;
}

/** Where a chunk's payload begins, for messages about it. */
export function chunkAt(label: string, chunk: Chunk, path = `chunk[${chunk.index}]`): Location {
  return { source: label, offset: chunk.offset, path };
}

interface EntryPlace {
  readonly index: number;
  readonly start: number;
  readonly table: StringTable;
  readonly place: TocPlace;
}

function decodeEntry(bytes: Bytes, { index, start, table, place }: EntryPlace): Chunk {
  const { label, fileBytes, header } = place;
  const recordAt: Location = { source: label, offset: header.tocOffset + start };
  const locate = (): Location => ({ ...recordAt, path: `toc[${index}]` });
  let entry: ReturnType<typeof tocEntry.decode>;
  try {
    entry = tocEntry.decode(bytes, recordAt, { start, code: "format/aero.toc" });
  } catch {
    // Decoded once more for the path: building it for a million good entries would cost more than decoding them.
    entry = tocEntry.decode(bytes, locate(), { start, code: "format/aero.toc" });
  }
  const { chunkOffset, chunkLength, chunkUlen, nameOff, nameLen } = entry;
  const end = checkedAdd(chunkOffset, chunkLength, recordAt);
  if (end > fileBytes) {
    const message = `Cannot read AERO TOC entry: chunk_offset + chunk_length must be <= ${fileBytes}, found ${end}`;
    throw new FormatError(
      "format/aero.chunk-bounds",
      message,
      { source: label, offset: header.tocOffset + start + 8, path: `toc[${index}].chunk_offset` },
      { hint: "The file is cut short or damaged; download it again", neededBytes: end },
    );
  }
  const name = table.name(nameOff, nameLen, locate);
  const { fourcc, chunkFlags: flags } = entry;
  return { index, fourcc, flags, offset: chunkOffset, byteLength: chunkLength, ulen: chunkUlen, name };
}

/** Fields that must be zero and that no reader has ever checked: other values are reported, in one line. */
class ReservedFields {
  readonly #place: TocPlace;
  #count = 0;
  #first: Location | undefined;

  constructor(place: TocPlace) {
    this.#place = place;
  }

  look(path: string | (() => string), offset: number, bytes: Bytes): void {
    for (let i = 0; i < bytes.length; i++) {
      if (bytes[i] === 0) continue;
      this.#count++;
      const name = typeof path === "string" ? path : `${path()}.reserved0`;
      this.#first ??= { source: this.#place.label, offset: offset + i, path: name };
      return;
    }
  }

  findings(): Finding[] {
    if (this.#first === undefined) return [];
    const what = this.#count === 1 ? "A reserved field is" : `${this.#count} reserved fields are`;
    const message = `${what} not zero; the specification says "must be zeros"`;
    return [{ severity: "warning", code: "format/aero.reserved", message, at: this.#first }];
  }
}

/** Tables up to this length are decoded in one piece: a hundred thousand short names cost one call, not one each. */
const WHOLE_BYTES = 16 << 20;

/** Chunk names by (name_off, name_len). The NULs only separate names for people; readers use the lengths. */
class StringTable {
  readonly byteLength: number;
  readonly #bytes: Bytes;
  /** The whole table, if every byte is one character. */
  readonly #text: string | undefined;
  readonly #label: string;
  readonly #offset: number;

  constructor(bytes: Bytes, { label, offset }: { readonly label: string; readonly offset: number }) {
    this.#bytes = bytes;
    this.byteLength = bytes.byteLength;
    this.#label = label;
    this.#offset = offset;
    this.#text = bytes.byteLength <= WHOLE_BYTES && isAscii(bytes) ? decodeUtf8(bytes) : undefined;
  }

  /** Calls `locate` only to refuse a name outside the table or a name that is not UTF-8. */
  name(nameOff: number, nameLen: number, locate: () => Location): string {
    const end = nameOff + nameLen; // two u32: exact
    if (end > this.byteLength) {
      const message = `Cannot read AERO chunk name: name_off + name_len must be <= ${this.byteLength}, found ${end}`;
      throw new FormatError("format/aero.name-bounds", message, locate());
    }
    if (this.#text !== undefined) return this.#text.slice(nameOff, end);
    const bytes = this.#bytes.subarray(nameOff, end);
    const name = decodeUtf8(bytes);
    if (name !== undefined) return name;
    const message = "Cannot read AERO chunk name: must be valid UTF-8";
    throw new FormatError("format/aero.name-utf8", message, {
      source: this.#label,
      offset: this.#offset + nameOff + findInvalidUtf8(bytes),
      path: `${locate().path}.name`,
    });
  }
}

function isAscii(bytes: Bytes): boolean {
  for (let i = 0; i < bytes.length; i++) if ((bytes[i] as number) > 0x7f) return false;
  return true;
}

/** The chunks that a file has once, by their role. */
export const NAMED_CHUNKS = [
  ["control_integrity", FOURCC.control],
  ["json", FOURCC.json],
  ["manifest", FOURCC.manifest],
  ["tensors", FOURCC.index],
] as const;

/** The longest tensor name that the C++ reader accepts; longer names would only fill `tare.origin`. */
export const MAX_NAME_LENGTH = 4096;

/** Unusual names of the chunks that a file has once; `losses` are names that are not carried. */
export function chunkNames(toc: Toc): { readonly names: ChunkNames; readonly losses: readonly Loss[] } {
  const names: { [role: string]: string } = {};
  const losses: Loss[] = [];
  for (const [role, fourcc] of NAMED_CHUNKS) {
    const name = toc.first(fourcc)?.name ?? CHUNK_NAMES[role];
    if (name === CHUNK_NAMES[role]) continue;
    if (name.length <= MAX_NAME_LENGTH) names[role] = name;
    else losses.push({ name: fourcc, reason: `its name of ${name.length} characters is too long to be carried` });
  }
  return { names, losses };
}
