import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { LimitError, UnsupportedError, UsageError } from "../../base/errors.ts";
import { alignUp } from "../../base/integers.ts";
import { encodeUtf8 } from "../../base/text.ts";
import type { Source } from "../../bytes/source.ts";
import type { Container } from "../../model/archive.ts";
import type { FormatRestamp, RestampContext, RestampPiece } from "../../model/capabilities.ts";
import type { Metadata } from "../../model/metadata.ts";
import { renderMetadata } from "../../model/metadata-json.ts";
import { ALIGNMENT_64, CRC_BYTES, HEADER_CRC_OFFSET, type Header64, header64, headerCrcOf } from "./layouts/layout.ts";
import { WildDetails } from "./layouts/layout-facts.ts";
import { isShadowed, shadowedLosses } from "./metadata.ts";
import { AprModel, type SpecDetails, specDetails } from "./model.ts";
import { decodeFooter, encodeFooter } from "./spec/header.ts";
import { DATA_ALIGNMENT, FILE_FLAGS, type FileHeader, fileFooter, fileHeader } from "./spec/layout.ts";

/** A file of the 64-byte layout, as far as an edit of its metadata concerns it. */
interface AprenderFile {
  readonly source: Source;
  /** Offset of the CRC-32 of everything before it; undefined in files without one, such as realizar's. */
  readonly checksumOffset: number | undefined;
}

/** Refuses files that are compressed as a whole and files that end in bytes that belong to nothing. */
function aprenderFile(model: AprModel): AprenderFile {
  const { details, parts } = model;
  const source = parts[0]?.source;
  if (source === undefined || !(details instanceof WildDetails) || details.image !== source) {
    throw unfit(parts[0]?.label ?? "apr", "must not be compressed as a whole");
  }
  const { checksum } = details;
  if (checksum?.orAt !== undefined) throw unfit(source.label, "must end with its checksum");
  return { source, checksumOffset: checksum?.certainty === "present" ? checksum.offset : undefined };
}

/** Keeps the metadata in its place if it fits there; else moves index and data by a multiple of 64. */
async function planAprenderPieces(
  { source, checksumOffset }: AprenderFile,
  metadata: Metadata,
  { engine, signal }: RestampContext,
): Promise<readonly RestampPiece[]> {
  const opening = await source.read(0, header64.byteLength, { signal });
  const header = header64.decode(opening, { source: source.label, path: "header" }, { code: "format/apr.header" });
  checkAprenderOrder(header, source);
  const before = await source.read(0, header.dataOffset, { signal });
  const front = editFront(before, header, encodeUtf8(renderMetadata(metadata.entries)));
  const end = checksumOffset ?? source.byteLength;
  const data = { offset: header.dataOffset, byteLength: end - header.dataOffset };
  const pieces: RestampPiece[] = [
    { kind: "bytes", bytes: front },
    { kind: "copy", ...data },
  ];
  if (checksumOffset === undefined) return pieces;
  // The new sum is derived from the old one, so damage from before the edit still shows.
  const footer = await source.read(checksumOffset, CRC_BYTES, { signal });
  const oldSum = new DataView(footer.buffer, footer.byteOffset).getUint32(0, true);
  const dataSum = cutFront(oldSum, await engine.crc32(before), data.byteLength);
  const bytes = new Uint8Array(CRC_BYTES);
  const sum = joinCrc(await engine.crc32(front), dataSum, data.byteLength);
  new DataView(bytes.buffer).setUint32(0, sum, true);
  return [...pieces, { kind: "bytes", bytes }];
}

function checkAprenderOrder(header: Header64, source: Source): void {
  const { metadataOffset, metadataSize, tensorIndexOffset, dataOffset } = header;
  const isUsual =
    metadataOffset === header64.byteLength &&
    metadataOffset + metadataSize <= tensorIndexOffset &&
    tensorIndexOffset <= dataOffset &&
    dataOffset <= source.byteLength - CRC_BYTES;
  if (!isUsual) throw unfit(source.label, "must have metadata, index and data one after the other");
}

function editFront(before: Bytes, header: Header64, metadata: Bytes): Bytes {
  const { metadataOffset, tensorIndexOffset, dataOffset, headerCrc32 } = header;
  const room = tensorIndexOffset - metadataOffset;
  const shift = alignUp(Math.max(0, metadata.byteLength - room), ALIGNMENT_64);
  const start = before.slice(0, header64.byteLength);
  const view = new DataView(start.buffer);
  view.setUint32(20, metadata.byteLength, true);
  view.setBigUint64(24, BigInt(tensorIndexOffset + shift), true);
  view.setBigUint64(32, BigInt(dataOffset + shift), true);
  // realizar leaves the CRC zero, which is not an error.
  if (headerCrc32 !== 0) view.setUint32(HEADER_CRC_OFFSET, headerCrcOf(start), true);
  const padding = new Uint8Array(room + shift - metadata.byteLength);
  return concatBytes([start, metadata, padding, before.subarray(tensorIndexOffset)]);
}

function unfit(label: string, problem: string): UnsupportedError {
  const hint = "Bring it into the specification's layout with: tare upgrade OLD.apr NEW.apr";
  const message = `Cannot edit the metadata of this APR file: it ${problem}`;
  return new UnsupportedError("unsupported/stamp.layout", message, { source: label }, { hint });
}

/**
 * Computes the CRC-32 (IEEE 802.3, reflected) of joined and cut runs from the CRCs of their parts. A CRC is a remainder
 * modulo the polynomial, so appending n zero bits multiplies it by x^n; bit 31 is x^0 in this representation.
 */

const POLYNOMIAL = 0xedb8_8320;
/** x is a generator: x^(2^32 - 1) is 1. */
const ORDER = 0xffff_ffff;
const ONE = 0x8000_0000;

/** The CRC of A followed by B. */
export function joinCrc(a: number, b: number, bBytes: number): number {
  return (multiply(a, powerOfX((8 * (bBytes % ORDER)) % ORDER)) ^ b) >>> 0;
}

/** The CRC of B, from the CRC of A and the CRC of A followed by B. */
export function cutFront(whole: number, a: number, bBytes: number): number {
  return joinCrc(a, whole, bBytes);
}

/** The CRC of A, from the CRC of B and the CRC of A followed by B. */
export function cutTail(whole: number, b: number, bBytes: number): number {
  const bits = (8 * (bBytes % ORDER)) % ORDER;
  return multiply((whole ^ b) >>> 0, powerOfX(ORDER - bits));
}

/** x^n modulo the polynomial. */
function powerOfX(n: number): number {
  let result = ONE;
  // x itself is the bit below x^0.
  let square = ONE >>> 1;
  for (let left = n; left > 0; left = Math.floor(left / 2)) {
    if (left % 2 === 1) result = multiply(result, square);
    square = multiply(square, square);
  }
  return result;
}

/** The product of two remainders. */
function multiply(a: number, b: number): number {
  let product = 0;
  let shifted = b;
  for (let bit = 31; bit >= 0; bit--) {
    if (((a >>> bit) & 1) === 1) product ^= shifted;
    shifted = (shifted & 1) === 1 ? (shifted >>> 1) ^ POLYNOMIAL : shifted >>> 1;
  }
  return product >>> 0;
}

/**
 * Edits the metadata of a file in the specification's layout or in aprender's 64-byte layout. The padding before the
 * data, or before the index, shrinks and grows to make room.
 */
export const aprRestamp: FormatRestamp = {
  values: "json",
  fixedKeys: ["apr_version"],
  target(container) {
    if (hasHeader64(container)) {
      const unread = (container.unread ?? []).filter(isShadowed);
      return { source: aprenderFile(container).source, metadata: container.metadata, unread };
    }
    const { source, metadata } = ownDetails(container);
    return { source, metadata: (container as AprModel).metadata, unread: shadowedLosses(metadata.shadowed) };
  },
  async plan(container, metadata, context) {
    if (hasHeader64(container)) return planAprenderPieces(aprenderFile(container), metadata, context);
    const details = ownDetails(container);
    if (details.signing === "signed" && context.signature !== "drop") throw signed(details);
    checkRequired(metadata, details);
    return planPieces(details, metadata, context);
  },
};

function hasHeader64(container: Container): container is AprModel {
  const isApr = container instanceof AprModel;
  return isApr && (container.layout === "aprender" || container.layout === "aprender-2025");
}

function ownDetails(container: Container): SpecDetails {
  const at = { source: container.parts[0]?.label ?? container.format };
  if (!(container instanceof AprModel)) {
    throw new UsageError("usage/apr.container", `Cannot treat a ${container.format} container as APR`, at);
  }
  if (container.layout === "manifest") {
    const hint = "Make one file of it with: tare merge MANIFEST -o OUT.apr";
    const message = "Cannot edit the metadata of a set of APR shards: must be one file";
    throw new UnsupportedError("unsupported/stamp.set", message, at, { hint });
  }
  if (container.layout !== "spec") {
    const hint = "Bring it into that layout with: tare upgrade OLD.apr NEW.apr";
    const message = `Cannot edit the metadata of an APR file of the layout "${container.layout}": must be the specification's or aprender's`;
    throw new UnsupportedError("unsupported/stamp.layout", message, at, { hint });
  }
  const details = specDetails(container);
  const { flags } = details.header;
  if (FILE_FLAGS.has(flags, "SHARDED")) {
    const hint = "Make one file of the set first, with: tare merge MANIFEST -o OUT.apr";
    const message = "Cannot edit the metadata of an APR shard: its manifest holds the file's length and CRC";
    throw new UnsupportedError("unsupported/stamp.set", message, at, { hint });
  }
  if (FILE_FLAGS.has(flags, "ENCRYPTED")) {
    const hint = "Convert it to a file that is not encrypted, and encrypt it again afterwards";
    const message = "Cannot edit the metadata of an encrypted APR file: it is authenticated together with the tensors";
    throw new UnsupportedError("unsupported/stamp.encrypted", message, at, { hint });
  }
  checkOrder(details);
  return details;
}

/** Metadata, index and data must follow each other, as every writer puts them. */
function checkOrder({ header, source }: SpecDetails): void {
  const { metadataOffset, metadataSize, indexOffset, indexSize, dataOffset } = header;
  if (metadataOffset + metadataSize <= indexOffset && indexOffset + indexSize <= dataOffset) return;
  const message = "Cannot edit APR metadata alone: metadata, index and data must follow each other";
  throw new UnsupportedError(
    "unsupported/stamp.layout",
    message,
    { source: source.label, offset: 12, path: "header" },
    { hint: "Write the file again with: tare convert IN.apr OUT.apr" },
  );
}

function signed({ source, dataEnd }: SpecDetails): UnsupportedError {
  const message = "Cannot edit the metadata of a signed APR file: the signature would no longer fit";
  return new UnsupportedError(
    "unsupported/stamp.signed",
    message,
    { source: source.label, offset: dataEnd, path: "signature" },
    { hint: "Pass the option unsign to leave the signature out, then sign again" },
  );
}

/** The keys that the specification requires must keep the types it requires. */
function checkRequired(metadata: Metadata, { source }: SpecDetails): void {
  for (const [key, type, wanted] of [
    ["model_type", "string", "a string"],
    ["architecture", "map", "an object"],
  ] as const) {
    const found = metadata.get(key)?.type;
    if (found === type) continue;
    const message = `Cannot write APR metadata: "${key}" must be ${wanted}, found ${found ?? "none"}`;
    throw new UsageError("usage/stamp.key", message, { source: source.label, path: `metadata.${key}` });
  }
}

async function planPieces(
  details: SpecDetails,
  metadata: Metadata,
  { engine, signal }: RestampContext,
): Promise<readonly RestampPiece[]> {
  const { source, header, dataEnd } = details;
  const before = await source.read(0, header.dataOffset, { signal });
  const { indexOffset, indexSize } = header;
  const index = before.subarray(indexOffset, indexOffset + indexSize);
  const front = encodeFront(details, encodeUtf8(renderMetadata(metadata.entries)), index);
  // Both sums are derived from the old one, so damage from before the edit still shows.
  const dataBytes = dataEnd - header.dataOffset;
  const oldSum = await sumBeforeSignature(details, { engine, signal });
  const dataSum = cutFront(oldSum, await engine.crc32(before), dataBytes);
  const sum = joinCrc(await engine.crc32(front), dataSum, dataBytes);
  const byteLength = front.byteLength + dataBytes + fileFooter.byteLength;
  return [
    { kind: "bytes", bytes: front },
    { kind: "copy", offset: header.dataOffset, byteLength: dataBytes },
    { kind: "bytes", bytes: encodeFooter(sum, byteLength) },
  ];
}

/** The CRC of everything up to the end of the data, derived from the footer. */
async function sumBeforeSignature(
  { source, dataEnd }: SpecDetails,
  { engine, signal }: Pick<RestampContext, "engine" | "signal">,
): Promise<number> {
  const tail = await source.read(dataEnd, source.byteLength - dataEnd, { signal });
  const end = tail.byteLength - fileFooter.byteLength;
  const footer = decodeFooter(tail.subarray(end), source.byteLength, source.label);
  if (footer.problem !== undefined) throw footer.problem;
  return end === 0 ? footer.crc32 : cutTail(footer.crc32, await engine.crc32(tail.subarray(0, end)), end);
}

/** The data moves only if the room does not suffice, and then by a step that keeps every alignment. */
function encodeFront({ header, source }: SpecDetails, metadata: Bytes, index: Bytes): Bytes {
  const metadataOffset = fileHeader.byteLength;
  const indexOffset = metadataOffset + metadata.byteLength;
  const missing = Math.max(0, indexOffset + index.byteLength - header.dataOffset);
  const dataOffset = header.dataOffset + alignUp(missing, DATA_ALIGNMENT);
  if (dataOffset > 0xffff_ffff) {
    const message = `Cannot write APR: metadata and index must end below 4 GiB, found ${dataOffset}`;
    throw new LimitError("limit/apr.front-bytes", message, { source: source.label, path: "data_offset" });
  }
  const flags = Number(BigInt(header.flags) & ~FILE_FLAGS.encode(["SIGNED"]));
  const edited: FileHeader = {
    ...header,
    flags,
    metadataOffset,
    metadataSize: metadata.byteLength,
    indexOffset,
    dataOffset,
  };
  const padding = new Uint8Array(dataOffset - indexOffset - index.byteLength);
  return concatBytes([fileHeader.encode(edited), metadata, index, padding]);
}
