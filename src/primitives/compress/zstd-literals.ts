import type { Bytes } from "../../base/bytes.ts";
import type { Location } from "../../base/errors.ts";
import { frameFault, MAX_BLOCK_BYTES } from "./zstd-frame.ts";
import { decodeHuffmanStream, decodeHuffmanTable, type HuffmanTable, type Run } from "./zstd-huffman.ts";

interface LiteralsHeader {
  readonly kind: "raw" | "rle" | "compressed" | "treeless";
  readonly headerBytes: number;
  readonly contentBytes: number;
  readonly storedBytes: number;
  readonly streams: 1 | 4;
}

const KINDS = ["raw", "rle", "compressed", "treeless"] as const;

/** Reads the literals of one block after another; the Huffman tree of one may serve the next. */
export class LiteralsDecoder {
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

  /** A table of three 2-byte lengths, then four streams of equally many literals, the last with the rest. */
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
