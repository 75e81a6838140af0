import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { alignUp } from "../../base/integers.ts";
import { encodeUtf8 } from "../../base/text.ts";
import {
  CHUNK_ALIGNMENT,
  fileHeader,
  HASH_BYTES,
  STRING_TABLE_ALIGNMENT,
  TOC_HASH_OFFSET,
  tocEntry,
  tocHeader,
  VERSION,
} from "./layout.ts";

/** A chunk as the TOC records it. */
export interface ChunkRecord {
  readonly fourcc: string;
  readonly name: string;
  readonly flags: number;
  readonly offset: number;
  /** Stored bytes. */
  readonly length: number;
  /** Bytes before compression. */
  readonly ulen: number;
  /** BLAKE3-256 of the bytes before compression. */
  readonly digest: Bytes;
}

/** Where header, TOC and string table lie: a matter of the chunks' names alone. */
export interface ControlLayout {
  readonly tocLength: number;
  readonly stringTableOffset: number;
  /** Padding included. */
  readonly stringTableLength: number;
  /** Where the first chunk begins, and what IHSH covers. */
  readonly payloadsStart: number;
}

export function layOutControl(names: readonly string[]): ControlLayout {
  const tocLength = tocHeader.byteLength + names.length * tocEntry.byteLength;
  const stringTableOffset = alignUp(fileHeader.byteLength + tocLength, STRING_TABLE_ALIGNMENT);
  // Every name is followed by a NUL, the last one too.
  const used = names.reduce((sum, name) => sum + encodeUtf8(name).byteLength + 1, 0);
  const stringTableLength = alignUp(used, STRING_TABLE_ALIGNMENT);
  const payloadsStart = alignUp(stringTableOffset + stringTableLength, CHUNK_ALIGNMENT);
  return { tocLength, stringTableOffset, stringTableLength, payloadsStart };
}

/** Header, TOC, string table and the padding up to the first chunk: bytes 0 … `payloadsStart` of the file. */
export function encodeControl(uuid: Bytes, chunks: readonly ChunkRecord[]): Bytes {
  const layout = layOutControl(chunks.map(({ name }) => name));
  const region = new Uint8Array(layout.payloadsStart);
  region.set(encodeHeader(uuid, layout));
  region.set(tocHeader.encode({ entryCount: chunks.length }), fileHeader.byteLength);
  const names: Bytes[] = [];
  let nameOff = 0;
  let position = fileHeader.byteLength + tocHeader.byteLength;
  for (const { fourcc, name, flags, offset, length, ulen, digest } of chunks) {
    const text = encodeUtf8(`${name}\0`);
    const entry = {
      fourcc,
      chunkFlags: flags,
      chunkOffset: offset,
      chunkLength: length,
      chunkUlen: ulen,
      nameOff,
      nameLen: text.byteLength - 1,
      blake3256: digest,
    };
    region.set(tocEntry.encode(entry), position);
    position += tocEntry.byteLength;
    names.push(text);
    nameOff += text.byteLength;
  }
  region.set(concatBytes(names), layout.stringTableOffset);
  return region;
}

/** The region with the digest of every TOC entry zeroed: what IHSH is computed over (AIP-0001). */
export function withoutDigests(region: Bytes, chunkCount: number): Bytes {
  const copy = region.slice();
  const first = fileHeader.byteLength + tocHeader.byteLength + TOC_HASH_OFFSET;
  for (let i = 0; i < chunkCount; i++) {
    const start = first + i * tocEntry.byteLength;
    copy.fill(0, start, start + HASH_BYTES);
  }
  return copy;
}

function encodeHeader(uuid: Bytes, layout: ControlLayout): Bytes {
  return fileHeader.encode({
    versionMajor: VERSION.major,
    versionMinor: VERSION.minor,
    tocOffset: fileHeader.byteLength,
    tocLength: layout.tocLength,
    stringTableOffset: layout.stringTableOffset,
    stringTableLength: layout.stringTableLength,
    uuid,
  });
}
