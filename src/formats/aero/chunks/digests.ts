import type { Bytes } from "../../../base/bytes.ts";
import { FormatError, UnsupportedError } from "../../../base/errors.ts";
import { printable } from "../../../base/text.ts";
import { MsgpackReader } from "../../../primitives/encoding/msgpack-reader.ts";
import { MsgpackWriter } from "../../../primitives/encoding/msgpack-writer.ts";
import { HASH_BYTES } from "../layout.ts";
import type { FurtherKeys } from "./further-keys.ts";
import type { ContentPlace } from "./tidx.ts";

/** A run of the file, end exclusive. */
export type Range = readonly [start: number, end: number];

/** What an IHSH chunk says (AIP-0001). */
export interface ControlHash {
  /** In order, without overlap. */
  readonly ranges: readonly Range[];
  readonly digest: Bytes;
  /** Bytes of the value; the rest of the chunk is padding. */
  readonly valueBytes: number;
}

/** Decodes the first MessagePack value: the reference pads the chunk with zeros to 256 bytes, the AIP does not. */
export function decodeIhsh(content: Bytes, place: ContentPlace, further?: FurtherKeys): ControlHash {
  const decoder = new IhshDecoder(content, place, further);
  return decoder.run();
}

class IhshDecoder {
  readonly #reader: MsgpackReader;
  #algo: string | undefined;
  #ranges: readonly Range[] | undefined;
  #digest: Bytes | undefined;
  readonly #further: FurtherKeys | undefined;

  constructor(content: Bytes, place: ContentPlace, further: FurtherKeys | undefined) {
    this.#further = further;
    const where = { source: place.label, base: place.offset, what: "AERO IHSH", path: "ihsh" };
    this.#reader = new MsgpackReader(content, where);
  }

  run(): ControlHash {
    const reader = this.#reader;
    for (let left = reader.readMapHeader(); left > 0; left--) {
      const key = reader.readKey();
      if (this.#isUnplaced(key)) this.#further?.unplaced(`IHSH.${printable(key)}`);
      if (key === "algo") this.#algo = reader.readString(key);
      else if (key === "covered_ranges") this.#ranges = this.#readRanges(key);
      else if (key === "digest") this.#digest = reader.readBin(key);
      else reader.skip(key);
    }
    if (this.#algo !== "blake3-256") {
      const message = `Cannot check AERO IHSH: algo must be "blake3-256", found ${JSON.stringify(this.#algo)}`;
      throw new UnsupportedError("unsupported/aero.algo", message, this.#reader.at("algo", 0));
    }
    if (this.#ranges === undefined || this.#ranges.length === 0) throw this.#fault("must have covered_ranges");
    if (this.#digest?.byteLength !== HASH_BYTES) {
      throw this.#fault(`digest must have ${HASH_BYTES} bytes, found ${this.#digest?.byteLength ?? "none"}`);
    }
    return { ranges: this.#ranges, digest: this.#digest, valueBytes: reader.offset };
  }

  /** Keys that the specification does not name, and a second value of one that it names. */
  #isUnplaced(key: string): boolean {
    if (key === "algo") return this.#algo !== undefined;
    if (key === "covered_ranges") return this.#ranges !== undefined;
    return key !== "digest" || this.#digest !== undefined;
  }

  /** Ranges must be in order without overlap, so that no list, however long, makes us read more than the file. */
  #readRanges(path: string): Range[] {
    const reader = this.#reader;
    const ranges: Range[] = [];
    let position = 0;
    for (let left = reader.readArrayHeader(path); left > 0; left--) {
      if (reader.readArrayHeader(path) !== 2) throw this.#fault("covered_ranges must hold pairs");
      const start = reader.readUint(path);
      const end = reader.readUint(path);
      if (start < position || end < start) {
        throw this.#fault(`covered_ranges must be in order, found ${start} to ${end} after ${position}`);
      }
      ranges.push([start, end]);
      position = end;
    }
    return ranges;
  }

  #fault(problem: string): FormatError {
    return new FormatError("format/aero.ihsh", `Cannot read AERO IHSH: ${problem}`, this.#reader.at());
  }
}

/** What a PHSH chunk says (AIP-0002), checked against the shard it belongs to. */
export interface PageHashes {
  readonly shardName: string | undefined;
  readonly pageBytes: number;
  readonly pageCount: number;
  /** The digests in one run. */
  readonly digests: Bytes;
  /** The first keys that the specification does not name, and those that it names but that come again. */
  readonly furtherKeys: readonly string[];
}

/** A key more tells nothing more. */
const MAX_FURTHER = 3;

/** `shardBytes` is the length of the shard: the pages must cover exactly that. */
export function decodePhsh(content: Bytes, place: ContentPlace, shardBytes: number): PageHashes {
  const where = { source: place.label, base: place.offset, what: "AERO PHSH", path: "phsh" };
  const reader = new MsgpackReader(content, where);
  const fault = (problem: string): FormatError =>
    new FormatError("format/aero.phsh", `Cannot read AERO PHSH: ${problem}`, reader.at());
  let shardName: string | undefined;
  let pageBytes = 0;
  let digests: Bytes | undefined;
  const furtherKeys: string[] = [];
  const seen = new Set<string>();
  for (let left = reader.readMapHeader(); left > 0; left--) {
    const key = reader.readKey();
    const isKnown = key === "shard_name" || key === "page_size" || key === "digests";
    if ((!isKnown || seen.has(key)) && furtherKeys.length < MAX_FURTHER) furtherKeys.push(printable(key));
    if (isKnown) seen.add(key);
    if (key === "shard_name") shardName = reader.readString(key);
    else if (key === "page_size") pageBytes = reader.readUint(key);
    else if (key === "digests") digests = readDigests(reader, fault);
    else reader.skip(key);
  }
  reader.checkEnd();
  if (pageBytes === 0) throw fault("page_size must be at least 1, found 0");
  if (digests === undefined) throw fault("must have digests");
  const pageCount = digests.byteLength / HASH_BYTES;
  const wanted = Math.ceil(shardBytes / pageBytes);
  if (pageCount !== wanted) {
    throw fault(`a shard of ${shardBytes} bytes must have ${wanted} pages of ${pageBytes}, found ${pageCount} digests`);
  }
  return { shardName, pageBytes, pageCount, digests, furtherKeys };
}

function readDigests(reader: MsgpackReader, fault: (problem: string) => FormatError): Bytes {
  const count = reader.readArrayHeader("digests");
  // Each takes at least two bytes of header and 32 of digest: refused before memory is allocated.
  if (count > reader.remaining / (2 + HASH_BYTES)) throw fault(`${count} digests cannot follow`);
  const digests = new Uint8Array(count * HASH_BYTES);
  for (let i = 0; i < count; i++) {
    const digest = reader.readBin("digests");
    if (digest.byteLength !== HASH_BYTES) {
      throw fault(`digests[${i}] must have ${HASH_BYTES} bytes, found ${digest.byteLength}`);
    }
    digests.set(digest, i * HASH_BYTES);
  }
  return digests;
}

/**
 * Bytes of an IHSH payload. Its length is part of what it hashes, so it is fixed. The MessagePack value at its start is
 * shorter; readers that take the first value and readers that take the whole chunk find the same digest.
 */
export const CONTROL_HASH_BYTES = 256;

/** The IHSH payload (AIP-0001): a digest over the bytes 0 … `coveredBytes`, TOC digests zeroed. */
export function encodeControlHash(coveredBytes: number, digest: Bytes): Bytes {
  const writer = new MsgpackWriter();
  writer.map(3);
  writer.string("algo");
  writer.string("blake3-256");
  writer.string("covered_ranges");
  writer.array(1);
  writer.array(2);
  writer.uint(0);
  writer.uint(coveredBytes);
  writer.string("digest");
  writer.bin(digest);
  const payload = new Uint8Array(CONTROL_HASH_BYTES);
  payload.set(writer.take());
  return payload;
}

/** Pages of a shard; the last one may be short, an empty shard has none. */
export function pageCount(shardBytes: number, pageBytes: number): number {
  return Math.ceil(shardBytes / pageBytes);
}

/** The PHSH payload (AIP-0002). */
export function encodePageHashes(shardName: string, pageBytes: number, digests: readonly Bytes[]): Bytes {
  const writer = new MsgpackWriter();
  writePageHeader(writer, shardName, pageBytes, digests.length);
  for (const digest of digests) writer.bin(digest);
  return writer.take();
}

/** The length of `encodePageHashes`: a digest takes its 32 bytes and two of bin header. */
export function measurePageHashes(shardName: string, pageBytes: number, count: number): number {
  const writer = new MsgpackWriter();
  writePageHeader(writer, shardName, pageBytes, count);
  return writer.take().byteLength + count * (2 + HASH_BYTES);
}

function writePageHeader(writer: MsgpackWriter, shardName: string, pageBytes: number, count: number): void {
  writer.map(3);
  writer.string("shard_name");
  writer.string(shardName);
  writer.string("page_size");
  writer.uint(pageBytes);
  writer.string("digests");
  writer.array(count);
}
