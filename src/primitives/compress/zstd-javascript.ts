import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { IntegrityError, type Location } from "../../base/errors.ts";
import { hex32 } from "../../base/text.ts";
import { xxh64 } from "../digest/xxh64.ts";
import {
  frameFault,
  MAX_BLOCK_BYTES,
  walkZstdBlocks,
  ZSTD_MAGIC,
  type ZstdBlock,
  type ZstdCodec,
  type ZstdTarget,
} from "./zstd.ts";
import { BIT_PADDING, decodeHuffmanStream, decodeHuffmanTable, type HuffmanTable, type Run } from "./zstd-entropy.ts";
import { SequencesDecoder, type SequenceTarget } from "./zstd-sequences.ts";

/** zstd in plain TypeScript. It decodes everything and compresses nothing: its frames hold the bytes as they are. */
export const zstdJavascript: ZstdCodec = {
  compress: encodeStoredFrame,
  decompress: decodeZstdContent,
};

/** RFC 8878 section 3.1.1: a single-segment frame with an 8-byte size and raw blocks. */
function encodeStoredFrame(bytes: Bytes): Bytes {
  const header = new Uint8Array(13);
  const view = new DataView(header.buffer);
  view.setUint32(0, ZSTD_MAGIC, true);
  view.setUint8(4, 0xe0); // size field of 8 bytes, single segment
  view.setBigUint64(5, BigInt(bytes.byteLength), true);
  const pieces: Bytes[] = [header];
  // At least one block, so that an empty frame has a last block too.
  for (let start = 0; start === 0 || start < bytes.byteLength; start += MAX_BLOCK_BYTES) {
    const content = bytes.subarray(start, start + MAX_BLOCK_BYTES);
    const isLast = start + MAX_BLOCK_BYTES >= bytes.byteLength;
    const word = (content.byteLength << 3) | (isLast ? 1 : 0);
    pieces.push(Uint8Array.of(word & 0xff, (word >> 8) & 0xff, word >> 16), content);
  }
  return concatBytes(pieces);
}

/** The first allocation. It grows only with decoded content, so a declared size alone costs nothing. */
const FIRST_BYTES = 1 << 20;

/**
 * The content of a frame, decoded by RFC 8878 without libzstd. The output grows with the decoded content, never beyond
 * `target.maxBytes`.
 */
function decodeZstdContent(bytes: Bytes, target: ZstdTarget): Bytes {
  const decoder = new BlockDecoder(bytes, target);
  let end = target.frame.byteLength;
  for (const block of walkZstdBlocks(bytes, target.frame, target.at)) {
    decoder.decode(block);
    end = block.offset + block.byteLength;
  }
  const content = decoder.content();
  if (target.frame.checksum === "present") checkChecksum(bytes, end, content, target.at);
  return content;
}

class BlockDecoder implements SequenceTarget {
  readonly #bytes: Bytes;
  readonly #target: ZstdTarget;
  readonly #literals = new LiteralsDecoder();
  readonly #sequences = new SequencesDecoder();
  /** The block with padding after it, so that bit readers may read whole words. */
  readonly #scratch: Bytes = new Uint8Array(MAX_BLOCK_BYTES + BIT_PADDING);
  #at: Location;
  #output: Bytes;
  #length = 0;
  #literalsUsed = 0;
  #blockEnd = 0;

  constructor(bytes: Bytes, target: ZstdTarget) {
    this.#bytes = bytes;
    this.#target = target;
    this.#at = target.at;
    this.#output = new Uint8Array(Math.min(target.maxBytes, target.frame.maxContentBytes, FIRST_BYTES));
  }

  content(): Bytes {
    return this.#length === this.#output.byteLength ? this.#output : this.#output.slice(0, this.#length);
  }

  decode(block: ZstdBlock): void {
    const data = this.#bytes.subarray(block.offset, block.offset + block.byteLength);
    this.#at = { ...this.#target.at, offset: (this.#target.at.offset ?? 0) + block.offset };
    this.#blockEnd = this.#length + block.maxContentBytes;
    if (block.type === "compressed") this.#decodeCompressed(data);
    else {
      const start = this.#grow(block.maxContentBytes);
      if (block.type === "raw") this.#output.set(data, start);
      else this.#output.fill(data[0] ?? 0, start, this.#length);
    }
  }

  addLiterals(count: number): void {
    const from = this.#literalsUsed;
    if (from + count > this.#literals.byteLength)
      throw frameFault("sequences must use no more than all literals", this.#at);
    this.#literalsUsed = from + count;
    const start = this.#grow(count);
    if (count > 32) this.#output.set(this.#literals.bytes.subarray(from, from + count), start);
    else for (let i = 0; i < count; i++) this.#output[start + i] = this.#literals.bytes[from + i] ?? 0;
  }

  addMatch(offset: number, byteLength: number): void {
    if (!(offset >= 1 && offset <= this.#length)) {
      throw frameFault(`an offset must be 1 … ${this.#length}, found ${offset}`, this.#at);
    }
    const start = this.#grow(byteLength);
    const output = this.#output;
    if (offset >= byteLength && byteLength > 32) output.copyWithin(start, start - offset, start - offset + byteLength);
    // Byte by byte: a match may overlap its own output, which repeats it.
    else for (let i = start; i < start + byteLength; i++) output[i] = output[i - offset] ?? 0;
  }

  #decodeCompressed(data: Bytes): void {
    this.#scratch.set(data);
    this.#scratch.fill(0, data.byteLength, data.byteLength + BIT_PADDING);
    const end = data.byteLength;
    const start = this.#literals.decode({ bytes: this.#scratch, start: 0, end }, this.#at);
    this.#literalsUsed = 0;
    this.#sequences.decode({ bytes: this.#scratch, start, end }, this, this.#at);
    this.addLiterals(this.#literals.byteLength - this.#literalsUsed);
  }

  /** Returns where the new bytes start. */
  #grow(byteLength: number): number {
    const start = this.#length;
    const end = start + byteLength;
    if (end > this.#blockEnd) throw frameFault("a block must give no more bytes than its window or 128 KiB", this.#at);
    if (end > this.#target.maxBytes) throw this.#target.tooLong("more");
    if (end > this.#output.byteLength) this.#enlarge(end);
    this.#length = end;
    return start;
  }

  #enlarge(byteLength: number): void {
    const { maxBytes, frame } = this.#target;
    const wanted = Math.min(Math.max(2 * this.#output.byteLength, byteLength), maxBytes, frame.maxContentBytes);
    let grown: Bytes;
    try {
      grown = new Uint8Array(wanted);
    } catch {
      throw this.#target.tooLong("more than fits in memory"); // the host's RangeError
    }
    grown.set(this.#output.subarray(0, this.#length));
    this.#output = grown;
  }
}

/** RFC 8878 section 3.1.1: the low four bytes of XXH64 with seed 0, little-endian. */
function checkChecksum(bytes: Bytes, end: number, content: Bytes, at: Location): void {
  const stored = new DataView(bytes.buffer, bytes.byteOffset + end, 4).getUint32(0, true);
  const computed = Number(xxh64(content) & 0xffff_ffffn);
  if (stored === computed) return;
  const message = `Cannot decompress zstd: the checksum must be ${hex32(computed)}, found ${hex32(stored)}`;
  throw new IntegrityError("integrity/zstd.checksum", message, { ...at, offset: (at.offset ?? 0) + end });
}

interface LiteralsHeader {
  readonly kind: "raw" | "rle" | "compressed" | "treeless";
  readonly headerBytes: number;
  readonly contentBytes: number;
  readonly storedBytes: number;
  readonly streams: 1 | 4;
}

const KINDS = ["raw", "rle", "compressed", "treeless"] as const;

/** Reads the literals of one block after another. A block may reuse the Huffman tree of the one before. */
class LiteralsDecoder {
  /** The literals of the last block: the first `byteLength` bytes. */
  readonly bytes: Bytes = new Uint8Array(MAX_BLOCK_BYTES);
  byteLength = 0;
  #table: HuffmanTable | undefined;

  /** RFC 8878 section 3.1.1.3.1. Returns where the section ends. */
  decode(run: Run, at: Location): number {
    const header = decodeHeader(run, at);
    const start = run.start + header.headerBytes;
    const end = start + header.storedBytes;
    if (end > run.end) throw frameFault("literals must end inside their block", at);
    this.byteLength = header.contentBytes;
    if (header.kind === "raw") this.bytes.set(run.bytes.subarray(start, end));
    else if (header.kind === "rle") this.bytes.fill(run.bytes[start] ?? 0, 0, header.contentBytes);
    else this.#decodeStreams(header, { bytes: run.bytes, start, end }, at);
    return end;
  }

  #decodeStreams(header: LiteralsHeader, run: Run, at: Location): void {
    let { start } = run;
    if (header.kind === "compressed") {
      const tree = decodeHuffmanTable(run, at);
      this.#table = tree.table;
      start = tree.end;
    }
    const table = this.#table;
    if (table === undefined) throw frameFault("literals without a tree must follow some that have one", at);
    if (header.streams === 1) {
      decodeHuffmanStream(table, { ...run, start }, { bytes: this.bytes, start: 0, count: header.contentBytes }, at);
    } else this.#decodeFour(table, { ...run, start }, at);
  }

  /** Three 2-byte lengths, then four streams: three with the same number of literals, the last with the rest. */
  #decodeFour(table: HuffmanTable, run: Run, at: Location): void {
    const share = (this.byteLength + 3) >> 2;
    if (this.byteLength < 6 || run.start + 6 > run.end) {
      throw frameFault("four streams of literals must hold at least 6 bytes and have their lengths before them", at);
    }
    let start = run.start + 6;
    for (let i = 0; i < 4; i++) {
      const at2 = run.start + 2 * i;
      const length = (run.bytes[at2] ?? 0) | ((run.bytes[at2 + 1] ?? 0) << 8);
      const end = i < 3 ? start + length : run.end;
      if (end > run.end) throw frameFault("a stream of literals must end inside its block", at);
      const count = i < 3 ? share : this.byteLength - 3 * share;
      decodeHuffmanStream(table, { bytes: run.bytes, start, end }, { bytes: this.bytes, start: i * share, count }, at);
      start = end;
    }
  }
}

/** RFC 8878 section 3.1.1.3.1.1: sizes of 5 to 20 bits without Huffman codes, of 10, 14 or 18 bits with them. */
function decodeHeader({ bytes, start, end }: Run, at: Location): LiteralsHeader {
  const byte = (i: number): number => (start + i < end ? (bytes[start + i] ?? 0) : 0);
  const kind = KINDS[byte(0) & 3] ?? "raw";
  const format = (byte(0) >> 2) & 3;
  const word = byte(0) | (byte(1) << 8) | (byte(2) << 16) | (byte(3) << 24);
  let header: LiteralsHeader;
  if (kind === "raw" || kind === "rle") {
    const headerBytes = format === 1 ? 2 : format === 3 ? 3 : 1;
    const contentBytes = headerBytes === 1 ? byte(0) >> 3 : (word & (headerBytes === 2 ? 0xffff : 0xff_ffff)) >> 4;
    header = { kind, headerBytes, contentBytes, storedBytes: kind === "raw" ? contentBytes : 1, streams: 1 };
  } else {
    const width = format === 3 ? 18 : format === 2 ? 14 : 10;
    const mask = (1 << width) - 1;
    const contentBytes = (word >>> 4) & mask;
    const high = width === 18 ? byte(4) << 10 : 0;
    const storedBytes = ((word >>> (4 + width)) | high) & mask;
    const headerBytes = format === 3 ? 5 : format === 2 ? 4 : 3;
    header = { kind, headerBytes, contentBytes, storedBytes, streams: format === 0 ? 1 : 4 };
  }
  if (start + header.headerBytes > end) throw frameFault("literals must end inside their block", at);
  if (header.contentBytes <= MAX_BLOCK_BYTES) return header;
  throw frameFault(`literals must have <= ${MAX_BLOCK_BYTES} bytes, found ${header.contentBytes}`, at);
}
