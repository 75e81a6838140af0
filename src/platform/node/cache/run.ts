import { createHash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import { type Bytes, concatBytes, equalBytes } from "../../../base/bytes.ts";
import { IntegrityError, isTareError, type Location } from "../../../base/errors.ts";
import { decodeUtf8, encodeHex, encodeUtf8 } from "../../../base/text.ts";
import type { Extent } from "../../../bytes/extents.ts";
import type { StoredFile } from "../../../bytes/layers/store.ts";
import { ascii, bytes, reserved, struct, u32, u64 } from "../../../struct/layout.ts";

/** Small enough that a header of 1 KiB costs little to check, large enough that 4 MiB need only 64 checksums. */
const BLOCK_BYTES = 64 << 10;
/**
 * SHA-256 cut to 128 bits. A CRC would miss one damaged block in 2^32, and the cache would then return a wrong weight
 * for ever. Of the strong hashes, SHA-256 is in every Node, and processors have instructions for it.
 */
const CHECKSUM_BYTES = 16;
/** Labels are URLs, validators are header lines: servers and clients limit both to some ten thousand bytes. */
const MAX_TEXT_BYTES = 64 << 10;
/** Length of the first read: enough for the head of a run of 4 MiB. */
const FIRST_READ_BYTES = 4 << 10;
/** Blocks that are read and checked in one go. */
const STEP_BYTES = 4 << 20;

const HEADER = struct("run", 96, {
  magic: ascii(0, 8).is("TARE-RUN"),
  version: u32(8).is(1),
  blockBytes: u32(12).is(BLOCK_BYTES),
  offset: u64(16),
  byteLength: u64(24),
  fileBytes: u64(32),
  place: bytes(40, 32),
  labelBytes: u32(72),
  validatorBytes: u32(76),
  reserved0: reserved(80, 16),
});

/** The checked head of a run, before its bytes. */
export interface RunHead extends Extent {
  readonly label: string;
  readonly validator: string;
  /** Where redirects led when the bytes were fetched. */
  readonly from: string | undefined;
  readonly fileByteLength: number;
  /** SHA-256 of the place, in hex. */
  readonly place: string;
  readonly checksums: Bytes;
  /** Where the bytes begin in the file of the run. */
  readonly dataOffset: number;
}

/** SHA-256 of a place in hex: the place itself may hold a secret in its query. */
export function digestPlace(place: string): string {
  return createHash("sha256").update(place).digest("hex");
}

/** The file of a run except its bytes, which follow. */
export function encodeRunHead(file: StoredFile, offset: number, content: Bytes): Bytes {
  const label = encodeUtf8(file.label);
  // A line break separates them, because header lines cannot contain one.
  const validator = encodeUtf8(file.from === undefined ? file.validator : `${file.validator}\n${file.from}`);
  const header = HEADER.encode({
    offset,
    byteLength: content.byteLength,
    fileBytes: file.byteLength,
    place: new Uint8Array(createHash("sha256").update(file.place).digest()),
    labelBytes: label.byteLength,
    validatorBytes: validator.byteLength,
  });
  const head = concatBytes([header, label, validator, ...blocksOf(content).map(checksumOf)]);
  return concatBytes([head, checksumOf(head)]);
}

/** Rejects with `integrity/cache.entry` if the head is not what was written, or if the file has another length. */
export async function readRunHead(handle: FileHandle, path: string): Promise<RunHead> {
  const { size } = await handle.stat();
  const start = await readAt(handle, path, 0, Math.min(FIRST_READ_BYTES, size));
  const fixed = decodeHeader(start, path);
  const blockCount = Math.ceil(fixed.byteLength / BLOCK_BYTES);
  const checksumsAt = HEADER.byteLength + fixed.labelBytes + fixed.validatorBytes;
  const sealAt = checksumsAt + blockCount * CHECKSUM_BYTES;
  const dataOffset = sealAt + CHECKSUM_BYTES;
  if (size !== dataOffset + fixed.byteLength) throw damagedEntry(path, "its length is not the one it states");
  const head = dataOffset <= start.byteLength ? start : await readAt(handle, path, 0, dataOffset);
  if (!equalBytes(checksumOf(head.subarray(0, sealAt)), head.subarray(sealAt, dataOffset))) {
    throw damagedEntry(path, "its header does not match its checksum");
  }
  const labelEnd = HEADER.byteLength + fixed.labelBytes;
  const version = decodeUtf8(head.subarray(labelEnd, checksumsAt)) ?? "";
  const end = version.indexOf("\n");
  return {
    offset: fixed.offset,
    byteLength: fixed.byteLength,
    fileByteLength: fixed.fileBytes,
    place: encodeHex(fixed.place),
    label: decodeUtf8(head.subarray(HEADER.byteLength, labelEnd)) ?? "",
    validator: end < 0 ? version : version.slice(0, end),
    from: end < 0 ? undefined : version.slice(end + 1),
    checksums: head.slice(checksumsAt, sealAt),
    dataOffset,
  };
}

/** True if the run holds bytes of exactly this version of this file. */
export function isRunOf(head: RunHead, file: StoredFile): boolean {
  return (
    head.place === digestPlace(file.place) &&
    head.validator === file.validator &&
    head.from === file.from &&
    head.fileByteLength === file.byteLength
  );
}

/** Rejects a run that was given the name of another one: what is looked for is found by name. */
export function checkName({ head, path }: OpenRun, { offset, byteLength }: Extent): void {
  if (head.offset === offset && head.byteLength === byteLength) return;
  throw damagedEntry(path, "it is not the run that its name states");
}

/** An open run, and its path for errors. */
export interface OpenRun {
  readonly handle: FileHandle;
  readonly path: string;
  readonly head: RunHead;
}

/**
 * Fills `into` from the offset `within` of the run. Reads only the blocks that it touches, and checks each one before
 * it returns any of its bytes; rejects with `integrity/cache.entry` at the first wrong one.
 */
export async function readRun({ handle, path, head }: OpenRun, within: number, into: Bytes): Promise<void> {
  const end = within + into.byteLength;
  let position = within - (within % BLOCK_BYTES);
  while (position < end) {
    const lastBlock = Math.ceil(end / BLOCK_BYTES) * BLOCK_BYTES;
    const stop = Math.min(position + STEP_BYTES, lastBlock, head.byteLength);
    if (stop <= position) throw damagedEntry(path, "it ends before the bytes that were asked for", position);
    const step = await readAt(handle, path, head.dataOffset + position, stop - position);
    checkBlocks(step, head.checksums.subarray((position / BLOCK_BYTES) * CHECKSUM_BYTES), path, position);
    const from = Math.max(position, within);
    const to = Math.min(stop, end);
    into.set(step.subarray(from - position, to - position), from - within);
    position = stop;
  }
}

/** Checks every block of a run, for `tare cache verify`. */
export async function checkRun(run: OpenRun): Promise<void> {
  const { head } = run;
  for (let position = 0; position < head.byteLength; position += STEP_BYTES) {
    await readRun(run, position, new Uint8Array(Math.min(STEP_BYTES, head.byteLength - position)));
  }
}

/** The error for a file of the cache that is not as it was written. */
export function damagedEntry(path: string, what: string, offset?: number): IntegrityError {
  return entryError(`Cache entry is damaged: ${what}`, { source: path, ...(offset === undefined ? {} : { offset }) });
}

/** The error for a file that others could have written, whatever is in it: "belongs to another user". */
export function foreignEntry(path: string, why: string): IntegrityError {
  return entryError(`Cache entry is not ours alone: it ${why}`, { source: path });
}

function entryError(message: string, at: Location): IntegrityError {
  return new IntegrityError("integrity/cache.entry", message, at, {
    hint: "It is never served; tare cache verify removes it with the option fix",
  });
}

function decodeHeader(start: Bytes, path: string): ReturnType<typeof HEADER.decode> {
  try {
    const header = HEADER.decode(start, { source: path, offset: 0, path: "run" });
    if (header.labelBytes <= MAX_TEXT_BYTES && header.validatorBytes <= MAX_TEXT_BYTES) return header;
  } catch (error) {
    if (!isTareError(error)) throw error;
  }
  throw damagedEntry(path, "it does not begin with the header of an entry", 0);
}

function checkBlocks(content: Bytes, checksums: Bytes, path: string, position: number): void {
  blocksOf(content).forEach((block, i) => {
    if (equalBytes(checksumOf(block), checksums.subarray(i * CHECKSUM_BYTES, (i + 1) * CHECKSUM_BYTES))) return;
    throw damagedEntry(path, `block ${position / BLOCK_BYTES + i} does not match its checksum`);
  });
}

function blocksOf(content: Bytes): Bytes[] {
  const count = Math.ceil(content.byteLength / BLOCK_BYTES);
  return Array.from({ length: count }, (_, i) => content.subarray(i * BLOCK_BYTES, (i + 1) * BLOCK_BYTES));
}

function checksumOf(content: Bytes): Bytes {
  return new Uint8Array(createHash("sha256").update(content).digest()).slice(0, CHECKSUM_BYTES);
}

/** Exactly this many bytes; a file that ends before is damaged. */
async function readAt(handle: FileHandle, path: string, position: number, byteLength: number): Promise<Bytes> {
  const target = new Uint8Array(byteLength);
  let done = 0;
  while (done < byteLength) {
    const { bytesRead } = await handle.read(target, done, byteLength - done, position + done);
    if (bytesRead === 0) throw damagedEntry(path, "it is cut short", position + done);
    done += bytesRead;
  }
  return target;
}
