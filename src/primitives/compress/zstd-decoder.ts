import type { Bytes } from "../../base/bytes.ts";
import { IntegrityError, type Location } from "../../base/errors.ts";
import { xxh64 } from "./xxh64.ts";
import type { ZstdTarget } from "./zstd.ts";
import { BIT_PADDING } from "./zstd-bits.ts";
import { frameFault, MAX_BLOCK_BYTES, walkZstdBlocks, type ZstdBlock } from "./zstd-frame.ts";
import { LiteralsDecoder } from "./zstd-literals.ts";
import { SequencesDecoder, type SequenceTarget } from "./zstd-sequences.ts";

/** More is not allocated before the content is there: a declared size alone costs nothing. */
const FIRST_BYTES = 1 << 20;

/**
 * The content of a frame by RFC 8878 alone, without libzstd. The output grows with what is decoded and never beyond
 * `target.maxBytes`.
 */
export function decodeZstdContent(bytes: Bytes, target: ZstdTarget): Bytes {
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
  /** The block with room behind it, so that bit readers may take whole words. */
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
    // Byte by byte: a match may reach into what it writes, which repeats it.
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
  const message = `Cannot decompress zstd: the checksum must be ${hex(computed)}, found ${hex(stored)}`;
  throw new IntegrityError("integrity/zstd.checksum", message, { ...at, offset: (at.offset ?? 0) + end });
}

function hex(value: number): string {
  return value.toString(16).padStart(8, "0");
}
