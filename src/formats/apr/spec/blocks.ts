import { type Bytes, EMPTY_BYTES } from "../../../base/bytes.ts";
import { FormatError, isTareError, type Location } from "../../../base/errors.ts";
import { printable } from "../../../base/text.ts";
import { allocateFor, ReadGuard } from "../../../bytes/layers/base.ts";
import type { ReadOptions, Source, StreamOptions } from "../../../bytes/source.ts";
import type { Lz4Codec } from "../../../primitives/compress/lz4.ts";
import type { Engine } from "../../../primitives/engine.ts";
import { type BlockFeed, ReadFeed, SEARCH_BYTES, StreamFeed } from "./block-feed.ts";
import { BLOCK_BYTES, BLOCK_HEADER_BYTES, MAX_BLOCK_BYTES, STORED_BLOCK } from "./layout.ts";

/** One read of a long run. */
const WINDOW_BYTES = 2 << 20;
/** One read of a stream: two of these fit into a core's cache. */
const STREAM_BYTES = 512 << 10;
/** Raw bytes in one piece of a stream. */
const PIECE_BYTES = 16 * BLOCK_BYTES;

/** A tensor stored as LZ4 blocks. */
interface BlockFacts {
  readonly name: string;
  /** The stored bytes, block headers included. */
  readonly stored: Source;
  /** Where they begin in the file, for messages. */
  readonly offset: number;
  readonly byteLength: number;
  readonly engine: Engine;
  /** The known beginnings of blocks; all sources of the tensor share it. */
  readonly table: BlockTable;
}

/**
 * The raw bytes of a compressed tensor. The format has no table of blocks, so finding a block means walking over the
 * lengths of the blocks before it. They are read once, and only blocks with requested bytes are decoded. Blocks need
 * not be full: their tokens say where they end.
 */
export class BlockSource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #facts: BlockFacts;
  readonly #guard: ReadGuard;

  constructor(facts: BlockFacts) {
    this.#facts = facts;
    this.label = facts.stored.label;
    this.byteLength = facts.byteLength;
    this.#guard = new ReadGuard(this.label, facts.byteLength);
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    if (byteLength === 0) return options.into ?? EMPTY_BYTES;
    const target = options.into ?? allocateFor(byteLength, this.label);
    const { table, stored } = this.#facts;
    const start = table.find(offset);
    const end = table.endOf(offset + byteLength) ?? stored.byteLength;
    const isLong = byteLength > SEARCH_BYTES;
    const feed = new ReadFeed(stored, {
      start: start.stored,
      end,
      windowBytes: isLong ? WINDOW_BYTES : SEARCH_BYTES,
      signal: options.signal,
    });
    const walk = await BlockWalk.begin(this.#facts, feed, start);
    try {
      await walk.fill(offset, target);
    } finally {
      await feed.end();
    }
    return target;
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = this.#guard.checkStream(offset, options);
    if (byteLength === 0) return;
    const { table, stored } = this.#facts;
    const start = table.find(offset);
    const end = table.endOf(offset + byteLength) ?? stored.byteLength;
    const range = { start: start.stored, end, signal: options.signal };
    // A local file is read into the buffer that is decoded. A remote one comes in one request, however many blocks it
    // has.
    const feed =
      stored.descriptor === undefined
        ? new StreamFeed(stored, { ...range, windowBytes: SEARCH_BYTES })
        : new ReadFeed(stored, { ...range, windowBytes: STREAM_BYTES });
    try {
      const walk = await BlockWalk.begin(this.#facts, feed, start);
      const buffer = allocateFor(Math.min(PIECE_BYTES, byteLength), this.label);
      for (let done = 0; done < byteLength; ) {
        options.signal?.throwIfAborted();
        this.#guard.checkOpen();
        const piece = buffer.subarray(0, Math.min(buffer.byteLength, byteLength - done));
        await walk.fill(offset + done, piece);
        done += piece.byteLength;
        yield piece;
      }
    } finally {
      await feed.end();
    }
  }

  /** The caller that opened the file closes it. */
  close(): Promise<void> {
    return Promise.resolve();
  }
}

/** The position of a walk: the block whose header comes next. */
interface BlockPlace {
  readonly index: number;
  /** Of its header, in the stored bytes. */
  readonly stored: number;
  /** Of its first byte, in the tensor. */
  readonly raw: number;
}

/** Walks over the blocks in order and decodes those that are wanted. */
class BlockWalk {
  readonly #facts: BlockFacts;
  readonly #feed: BlockFeed;
  readonly #codec: Lz4Codec;
  #place: BlockPlace;
  /** The last decoded block if only a part of it was wanted; it ends where the walk is. */
  #partial: { readonly raw: number; readonly bytes: Bytes } | undefined;

  private constructor(facts: BlockFacts, feed: BlockFeed, codec: Lz4Codec, place: BlockPlace) {
    this.#facts = facts;
    this.#feed = feed;
    this.#codec = codec;
    this.#place = place;
  }

  static async begin(facts: BlockFacts, feed: BlockFeed, place: BlockPlace): Promise<BlockWalk> {
    return new BlockWalk(facts, feed, await facts.engine.lz4(), place);
  }

  /** Fills `target` with the tensor's bytes from `offset` on. Offsets of later calls never go back. */
  async fill(offset: number, target: Bytes): Promise<void> {
    const end = offset + target.byteLength;
    let done = this.#copyPartial(offset, target);
    while (offset + done < end) {
      const block = await this.#nextBlock();
      const start = this.#place.raw;
      const wantsWhole = start >= offset && start + Math.min(BLOCK_BYTES, this.#facts.byteLength - start) <= end;
      if (wantsWhole) {
        done = start - offset + this.#decodeInto(block, target, start - offset);
      } else {
        const rawLength = this.#lengthOf(block);
        if (start + rawLength > offset) {
          const bytes = new Uint8Array(rawLength);
          this.#decode(block, bytes);
          this.#partial = { raw: start, bytes };
        }
        this.#advance(block, rawLength);
        done += this.#copyPartial(offset + done, target.subarray(done));
      }
    }
  }

  /** Copies what the last block still has of the range. */
  #copyPartial(offset: number, target: Bytes): number {
    const partial = this.#partial;
    if (partial === undefined || offset < partial.raw || offset >= partial.raw + partial.bytes.byteLength) return 0;
    const from = partial.bytes.subarray(offset - partial.raw, offset - partial.raw + target.byteLength);
    target.set(from);
    return from.byteLength;
  }

  /** The bytes after the next header. */
  async #nextBlock(): Promise<StoredBlock> {
    const { stored, raw } = this.#place;
    const left = this.#facts.stored.byteLength - stored;
    if (left < BLOCK_HEADER_BYTES) throw this.#corrupt(`${this.#facts.byteLength - raw} more bytes must follow`);
    const header = await this.#feed.peek(BLOCK_HEADER_BYTES);
    const field = new DataView(header.buffer, header.byteOffset, BLOCK_HEADER_BYTES).getUint32(0, true);
    const kind = field >= STORED_BLOCK ? "stored" : "lz4";
    const byteLength = kind === "stored" ? field - STORED_BLOCK : field;
    const most = Math.min(kind === "stored" ? BLOCK_BYTES : MAX_BLOCK_BYTES, left - BLOCK_HEADER_BYTES);
    if (byteLength === 0 || byteLength > most) {
      throw this.#corrupt(`its compressed_size must be 1 to ${most}, found ${byteLength}`);
    }
    const bytes = await this.#feed.peek(BLOCK_HEADER_BYTES + byteLength);
    return { kind, bytes: bytes.subarray(BLOCK_HEADER_BYTES) };
  }

  /** Decodes straight to its place and returns the length. Tries a full block first, because nearly all are full. */
  #decodeInto(block: StoredBlock, target: Bytes, at: number): number {
    const full = Math.min(BLOCK_BYTES, this.#facts.byteLength - this.#place.raw);
    let rawLength = full;
    try {
      this.#decode(block, target.subarray(at, at + full));
    } catch (error) {
      const shorter = isTareError(error) ? this.#lengthOf(block) : full;
      if (shorter === full) throw error;
      rawLength = shorter;
      this.#decode(block, target.subarray(at, at + rawLength));
    }
    this.#advance(block, rawLength);
    return rawLength;
  }

  #decode(block: StoredBlock, into: Bytes): void {
    const at = this.#at();
    if (block.kind === "lz4") this.#codec.decode(block.bytes, into, at);
    else if (block.bytes.byteLength === into.byteLength) into.set(block.bytes);
    else throw this.#corrupt(`it must hold ${into.byteLength} bytes, found ${block.bytes.byteLength}`);
  }

  /** Raw bytes of a block: at least one, and no more than the tensor has left. */
  #lengthOf({ kind, bytes }: StoredBlock): number {
    const most = Math.min(BLOCK_BYTES, this.#facts.byteLength - this.#place.raw);
    const found = kind === "stored" ? bytes.byteLength : lz4RawLength(bytes, most);
    if (found !== undefined && found > 0 && found <= most) return found;
    throw this.#corrupt(`it must hold 1 to ${most} bytes, and is malformed or holds another number`);
  }

  /** Steps past the block; the last one must end where the stored bytes end. */
  #advance({ bytes }: StoredBlock, rawLength: number): void {
    const taken = BLOCK_HEADER_BYTES + bytes.byteLength;
    const { index, stored, raw } = this.#place;
    const next = { index: index + 1, stored: stored + taken, raw: raw + rawLength };
    const { byteLength, table } = this.#facts;
    const rest = this.#facts.stored.byteLength - next.stored;
    if (next.raw === byteLength && rest !== 0) {
      throw this.#corrupt(`the tensor's bytes are complete with it, but ${rest} stored bytes follow`);
    }
    this.#feed.skip(taken);
    this.#place = next;
    table.add(next);
  }

  #at(): Location {
    const { name, offset, stored } = this.#facts;
    const { index, stored: position } = this.#place;
    return { source: stored.label, offset: offset + position, path: `"${printable(name)}".block[${index}]` };
  }

  #corrupt(problem: string): FormatError {
    const message = `Cannot decode block ${this.#place.index} of tensor "${printable(this.#facts.name)}": ${problem}`;
    return new FormatError("format/apr.block", message, this.#at());
  }
}

interface StoredBlock {
  readonly kind: "lz4" | "stored";
  readonly bytes: Bytes;
}

/** The known beginnings of a tensor's blocks, as far as walks have gone: 16 bytes per block. */
export class BlockTable {
  readonly #stored: number[] = [0];
  readonly #raw: number[] = [0];

  /** The last known block that begins at or before a byte of the tensor. */
  find(rawOffset: number): BlockPlace {
    let low = 0;
    let high = this.#raw.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#raw[middle] as number) <= rawOffset) low = middle;
      else high = middle - 1;
    }
    return { index: low, stored: this.#stored[low] as number, raw: this.#raw[low] as number };
  }

  /** Where the block with the byte before `rawEnd` ends in the stored bytes; undefined if that is not known yet. */
  endOf(rawEnd: number): number | undefined {
    const { index } = this.find(rawEnd - 1);
    return this.#stored[index + 1];
  }

  /** Adds the next place; ignores the others, which are known already. */
  add({ index, stored, raw }: BlockPlace): void {
    if (index !== this.#stored.length) return;
    this.#stored.push(stored);
    this.#raw.push(raw);
  }
}

/**
 * How many bytes an LZ4 block gives, by its tokens alone; undefined if they run past the block or the result past
 * `max`. Offsets of matches are not checked: decoding does that. The block format: a token with two nibbles, more
 * length bytes if a nibble is 15, literals, then a u16 offset and a match of at least 4 bytes, except after the last
 * literals.
 */
export function lz4RawLength(block: Bytes, max: number): number | undefined {
  const end = block.byteLength;
  let position = 0;
  let total = 0;
  while (position < end) {
    const token = block[position++] as number;
    let literals = token >> 4;
    if (literals === 15) {
      for (let more = 255; more === 255; literals += more) {
        if (position >= end) return undefined;
        more = block[position++] as number;
      }
    }
    position += literals;
    total += literals;
    if (position > end || total > max) return undefined;
    if (position === end) return total;
    position += 2;
    if (position > end) return undefined;
    let match = (token & 15) + 4;
    if ((token & 15) === 15) {
      for (let more = 255; more === 255; match += more) {
        if (position >= end) return undefined;
        more = block[position++] as number;
      }
    }
    total += match;
    if (total > max) return undefined;
  }
  // The last sequence has no match, so a block cannot end after one.
  return undefined;
}
