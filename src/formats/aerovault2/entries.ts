import { type Bytes, EMPTY_BYTES } from "../../base/bytes.ts";
import { FormatError, IntegrityError, type Location } from "../../base/errors.ts";
import { checkLimit } from "../../base/limits.ts";
import { printable } from "../../base/text.ts";
import { allocateFor, ReadGuard } from "../../bytes/layers/base.ts";
import type { ReadOptions, Source, StreamOptions } from "../../bytes/source.ts";
import { type ChunkLayout, evenLayout, type PlacedChunk, walkedLayout } from "./chunks.ts";
import { PREFIX_BYTES } from "./layout.ts";
import { dataOffsetOf, MANIFEST_OFFSET, type NamedRow, type Vault2 } from "./vault.ts";

/** Bytes read at a time: enough that the cost of requests does not matter. */
const BATCH_BYTES = 4 << 20;

/** The chunks of one file, proven as they are read. */
export class EntryChunks {
  readonly row: NamedRow;
  readonly #vault: Vault2;
  readonly #offset: number;
  readonly #overhead: number;
  #layout: ChunkLayout | undefined;

  /** Refuses an entry that claims more than the vault can hold; reads nothing. */
  constructor(row: NamedRow, vault: Vault2) {
    this.row = row;
    this.#vault = vault;
    this.#overhead = PREFIX_BYTES + vault.keys.chunks.sealBytes;
    this.#offset = dataOffsetOf(vault) + row.offset;
    this.#checkPlace();
    this.#layout = evenLayout({ ...row, offset: this.#offset, chunkSize: this.#chunkSize, overhead: this.#overhead });
  }

  get label(): string {
    return this.#vault.source.label;
  }

  /** Stored bytes, prefixes included; their sum does not depend on the lengths of the chunks. */
  get storedBytes(): number {
    return this.row.size + this.row.chunkCount * this.#overhead;
  }

  /** The plain bytes `from` … `to`, in pieces. */
  async *read(from: number, to: number, signal: AbortSignal | undefined): AsyncGenerator<Bytes> {
    for (let position = from; position < to; ) {
      signal?.throwIfAborted();
      const layout = this.#layout ?? (await this.#walk(signal));
      const batch = this.#batch(layout, position, to);
      const decoded = await this.#decode(batch, layout, signal);
      // The guess was wrong: the next round builds the table and looks up the same bytes in it.
      if (decoded === undefined) continue;
      for (const [i, plain] of decoded.entries()) {
        const { start } = batch[i] as PlacedChunk;
        yield plain.subarray(Math.max(position - start, 0), Math.min(to - start, plain.byteLength));
      }
      const last = batch.at(-1) as PlacedChunk;
      position = last.start + last.plainBytes;
    }
  }

  get #chunkSize(): number {
    return this.#vault.header.values.chunkSize;
  }

  #checkPlace(): void {
    const { size, offset, chunkCount } = this.row;
    const { byteLength } = this.#vault.source;
    const room = byteLength - dataOffsetOf(this.#vault);
    const stored = this.storedBytes;
    // Both are at most 2^53 - 1, so the difference is exact even if the sum is not.
    if (!Number.isSafeInteger(stored) || offset > room || stored > room - offset) {
      const problem = `its ${chunkCount} chunks of ${size} bytes in all must lie within the ${room} bytes of data, found them at ${offset}`;
      throw this.#fault("format/aerovault2.entry", problem, this.#manifestPlace());
    }
    if (size <= chunkCount * this.#chunkSize) return;
    const problem = `${chunkCount} chunks of at most ${this.#chunkSize} bytes must hold its ${size} bytes, and cannot`;
    throw this.#fault("format/aerovault2.entry", problem, this.#manifestPlace());
  }

  #batch(layout: ChunkLayout, from: number, to: number): PlacedChunk[] {
    const chunks: PlacedChunk[] = [];
    let byteLength = 0;
    for (let i = layout.find(from); i < this.row.chunkCount && byteLength < BATCH_BYTES; i++) {
      const chunk = layout.chunk(i);
      if (chunk.start >= to) break;
      chunks.push(chunk);
      byteLength += chunk.plainBytes + this.#overhead;
    }
    return chunks;
  }

  /** Undefined if the chunks are not where the layout guessed. */
  async #decode(
    batch: readonly PlacedChunk[],
    layout: ChunkLayout,
    signal: AbortSignal | undefined,
  ): Promise<Bytes[] | undefined> {
    const [first, last] = [batch[0] as PlacedChunk, batch.at(-1) as PlacedChunk];
    const byteLength = last.offset + last.plainBytes + this.#overhead - first.offset;
    const stored = await this.#vault.source.read(first.offset, byteLength, { signal });
    const view = new DataView(stored.buffer, stored.byteOffset, stored.byteLength);
    const decoded: Bytes[] = [];
    for (const chunk of batch) {
      const at = chunk.offset - first.offset;
      const blobBytes = chunk.plainBytes + this.#vault.keys.chunks.sealBytes;
      if (view.getUint32(at, true) !== blobBytes) {
        if (layout.kind === "walked")
          throw this.#fault("format/aerovault2.chunk", "a chunk changed its length", this.#at(chunk.offset));
        await this.#walk(signal);
        return undefined;
      }
      decoded.push(this.#open(stored.subarray(at + PREFIX_BYTES, at + PREFIX_BYTES + blobBytes), chunk));
    }
    return decoded;
  }

  #open(blob: Bytes, { index, offset }: PlacedChunk): Bytes {
    const { chunkCount: count, fileId, path } = this.row;
    const plain = this.#vault.keys.chunks.open(blob, { index, count, fileId });
    if (plain !== undefined) return plain;
    const message = `Cannot trust chunk ${index} of "${printable(path)}": its tag must match, and does not`;
    const hint = "The chunk is damaged, or is in the place of another one; get another copy of the vault";
    throw new IntegrityError("integrity/aerovault2.tag", message, this.#at(offset), { hint });
  }

  /** Walks from prefix to prefix, within the entry's extent. */
  async #walk(signal: AbortSignal | undefined): Promise<ChunkLayout> {
    const { chunkCount, size } = this.row;
    const { source, limits, keys } = this.#vault;
    const code = "limit/aerovault2.uneven-chunks";
    checkLimit(chunkCount, limits.unevenChunks, "chunks of different lengths", code, this.#manifestPlace());
    const { sealBytes } = keys.chunks;
    const end = this.#offset + this.storedBytes;
    const lengths: number[] = [];
    let position = this.#offset;
    for (let i = 0; i < chunkCount; i++) {
      const left = end - position - PREFIX_BYTES;
      if (left < sealBytes) throw this.#sizeFault(position);
      const prefix = await source.read(position, PREFIX_BYTES, { signal });
      const length = new DataView(prefix.buffer, prefix.byteOffset).getUint32(0, true);
      const most = this.#chunkSize + sealBytes;
      if (length < sealBytes || length > most) {
        const problem = `the length of chunk ${i} must be ${sealBytes} to ${most}, found ${length}`;
        throw this.#fault("format/aerovault2.chunk", problem, this.#at(position));
      }
      if (length > left) throw this.#sizeFault(position);
      lengths.push(length - sealBytes);
      position += PREFIX_BYTES + length;
    }
    if (position !== end) throw this.#sizeFault(position);
    this.#layout = walkedLayout(this.#offset, lengths, this.#overhead);
    if (lengths.reduce((sum, length) => sum + length, 0) !== size) throw this.#sizeFault(position);
    return this.#layout;
  }

  #sizeFault(position: number): FormatError {
    const problem = `its ${this.row.chunkCount} chunks must hold ${this.row.size} bytes, and do not`;
    return this.#fault("format/aerovault2.size", problem, this.#at(position));
  }

  #fault(code: `format/aerovault2.${string}`, problem: string, at: Location): FormatError {
    return new FormatError(code, `Cannot read "${printable(this.row.path)}" of the vault: ${problem}`, at);
  }

  #at(offset: number): Location {
    return { source: this.label, offset };
  }

  #manifestPlace(): Location {
    return { source: this.label, offset: MANIFEST_OFFSET, path: `entries["${printable(this.row.path)}"]` };
  }
}

/** The bytes of one file of a vault of version 2. Reads touch only the chunks they need; the vault owns the source. */
export class Entry2Source implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #chunks: EntryChunks;
  readonly #guard: ReadGuard;

  constructor(chunks: EntryChunks) {
    this.label = `${chunks.label}::${chunks.row.path}`;
    this.byteLength = chunks.row.size;
    this.#chunks = chunks;
    this.#guard = new ReadGuard(this.label, this.byteLength);
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    const { into, signal } = options;
    if (byteLength === 0) return into ?? EMPTY_BYTES;
    let target = into;
    let done = 0;
    for await (const piece of this.#chunks.read(offset, offset + byteLength, signal)) {
      if (target === undefined && piece.byteLength === byteLength) return piece;
      target ??= allocateFor(byteLength, this.label);
      target.set(piece, done);
      done += piece.byteLength;
    }
    this.#guard.checkOpen();
    return target ?? EMPTY_BYTES;
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = this.#guard.checkStream(offset, options);
    for await (const piece of this.#chunks.read(offset, offset + byteLength, options.signal)) {
      this.#guard.checkOpen();
      if (piece.byteLength > 0) yield piece;
      options.signal?.throwIfAborted();
    }
  }

  close(): Promise<void> {
    this.#guard.close();
    return Promise.resolve();
  }
}
