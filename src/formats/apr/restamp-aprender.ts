import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { UnsupportedError } from "../../base/errors.ts";
import { alignUp } from "../../base/integers.ts";
import { encodeUtf8 } from "../../base/text.ts";
import type { Source } from "../../bytes/source.ts";
import type { RestampContext, RestampPiece } from "../../model/capabilities.ts";
import type { Metadata } from "../../model/metadata.ts";
import { renderMetadata } from "../../model/metadata-json.ts";
import type { AprModel } from "./apr-model.ts";
import { cutFront, joinCrc } from "./crc-algebra.ts";
import { WildDetails } from "./wild/details.ts";
import { headerCrcOf } from "./wild/header-crc.ts";
import { ALIGNMENT_64, CRC_BYTES, HEADER_CRC_OFFSET, type Header64, header64 } from "./wild/layout.ts";

/** A file of the 64-byte layout, as far as an edit of its metadata concerns it. */
export interface AprenderFile {
  readonly source: Source;
  /** Where the CRC-32 of everything before it stands; undefined in files that have none, as realizar's. */
  readonly checksumOffset: number | undefined;
}

/** Refuses files whose parts have no place of their own, or which end in bytes that belong to nothing. */
export function aprenderFile(model: AprModel): AprenderFile {
  const { details, parts } = model;
  const source = parts[0]?.source;
  if (source === undefined || !(details instanceof WildDetails) || details.image !== source) {
    throw unfit(parts[0]?.label ?? "apr", "must not be compressed as a whole");
  }
  const { checksum } = details;
  if (checksum?.orAt !== undefined) throw unfit(source.label, "must end with its checksum");
  return { source, checksumOffset: checksum?.certainty === "present" ? checksum.offset : undefined };
}

/** The metadata in its own room where that suffices; else index and data move by a multiple of 64. */
export async function planAprenderPieces(
  { source, checksumOffset }: AprenderFile,
  metadata: Metadata,
  { engine, signal }: RestampContext,
): Promise<readonly RestampPiece[]> {
  const opening = await source.read(0, header64.byteLength, { signal });
  const header = header64.decode(opening, { source: source.label, path: "header" }, { code: "format/apr.header" });
  checkOrder(header, source);
  const before = await source.read(0, header.dataOffset, { signal });
  const front = editFront(before, header, encodeUtf8(renderMetadata(metadata.entries)));
  const end = checksumOffset ?? source.byteLength;
  const data = { offset: header.dataOffset, byteLength: end - header.dataOffset };
  const pieces: RestampPiece[] = [
    { kind: "bytes", bytes: front },
    { kind: "copy", ...data },
  ];
  if (checksumOffset === undefined) return pieces;
  // From the old sum, so that a file that was damaged before is still seen to be.
  const footer = await source.read(checksumOffset, CRC_BYTES, { signal });
  const oldSum = new DataView(footer.buffer, footer.byteOffset).getUint32(0, true);
  const dataSum = cutFront(oldSum, await engine.crc32(before), data.byteLength);
  const bytes = new Uint8Array(CRC_BYTES);
  const sum = joinCrc(await engine.crc32(front), dataSum, data.byteLength);
  new DataView(bytes.buffer).setUint32(0, sum, true);
  return [...pieces, { kind: "bytes", bytes }];
}

function checkOrder(header: Header64, source: Source): void {
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
  // realizar leaves it zero, which is not a wrong one.
  if (headerCrc32 !== 0) view.setUint32(HEADER_CRC_OFFSET, headerCrcOf(start), true);
  const padding = new Uint8Array(room + shift - metadata.byteLength);
  return concatBytes([start, metadata, padding, before.subarray(tensorIndexOffset)]);
}

function unfit(label: string, problem: string): UnsupportedError {
  const hint = "Bring it into the specification's layout with: tare upgrade OLD.apr NEW.apr";
  const message = `Cannot edit the metadata of this APR file: it ${problem}`;
  return new UnsupportedError("unsupported/stamp.layout", message, { source: label }, { hint });
}
