import { type Bytes, equalBytes, readMemory } from "../../base/bytes.ts";
import type { Engine, Hasher } from "../../primitives/engine.ts";
import { pageError } from "./errors.ts";
import { DIGEST_BYTES, type Piece } from "./pieces.ts";
import type { TokenBucket } from "./rate.ts";
import { CHECK_BYTES, type PartialFile } from "./store.ts";
import type { Lease } from "./transfer.ts";

interface FetchOptions {
  readonly engine: Engine;
  readonly blocks: Blocks;
  readonly bucket: TokenBucket | undefined;
  readonly onProgress: (byteLength: number) => void;
}

/**
 * Fetches the pieces of a lease with one request. Bytes are hashed and written as they arrive, and a piece counts once
 * its digest is right and its bytes are written. Ends early if another connection has taken over the rest.
 */
export async function fetchLease(lease: Lease, options: FetchOptions): Promise<void> {
  const { offset, byteLength } = lease.extent;
  const intake = new Intake(lease, options);
  try {
    for await (const bytes of lease.remote.source.stream(offset, { byteLength, signal: lease.signal })) {
      await options.bucket?.take(bytes.byteLength, lease.signal);
      await intake.add(bytes);
      if (lease.next >= lease.end) break;
    }
    await intake.settle();
  } finally {
    // No other connection may take these bytes before the last write to their place has ended.
    await intake.abandon();
  }
}

/** An error of the local disk: no other server could help. */
export class WriteFailure {
  readonly error: unknown;

  constructor(error: unknown) {
    this.error = error;
  }
}

/** Moves the bytes of one lease from the connection into the file. */
class Intake {
  readonly #lease: Lease;
  readonly #options: FetchOptions;
  readonly #writer: BlockWriter;
  readonly #completions: Promise<void>[] = [];
  #check: PieceCheck | undefined;
  #failure: WriteFailure | undefined;

  constructor(lease: Lease, options: FetchOptions) {
    this.#lease = lease;
    this.#options = options;
    this.#writer = new BlockWriter(lease.file.partial, options.blocks);
  }

  async add(bytes: Bytes): Promise<void> {
    const lease = this.#lease;
    let rest = bytes;
    while (rest.byteLength > 0 && lease.next < lease.end) {
      const { piece } = lease;
      this.#check ??= new PieceCheck(piece, this.#options.engine, lease.remote.label);
      const part = rest.subarray(0, piece.byteLength - lease.arrived);
      await this.#check.update(part);
      await this.#writer.add(piece.offset + lease.arrived, part);
      lease.receive(part.byteLength);
      rest = rest.subarray(part.byteLength);
      if (lease.arrived === piece.byteLength) await this.#finishPiece(this.#check);
    }
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Resolves when every piece that arrived is written and recorded. */
  async settle(): Promise<void> {
    await Promise.all(this.#completions);
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Resolves when no write is in progress, whether it succeeded or failed. */
  async abandon(): Promise<void> {
    await this.#writer.close();
    await Promise.allSettled(this.#completions);
  }

  async #finishPiece(check: PieceCheck): Promise<void> {
    const lease = this.#lease;
    const index = lease.next;
    const digest = await check.finish();
    const written = this.#writer.flush();
    const { byteLength } = lease.piece;
    const completion = written
      .then(() => lease.file.complete(lease, index, digest))
      .then(() => this.#options.onProgress(byteLength))
      .catch((error: unknown) => {
        this.#failure ??= new WriteFailure(error);
      });
    this.#completions.push(completion);
    lease.next++;
    lease.arrived = 0;
    this.#check = undefined;
  }
}

/** Hashes a piece as it arrives and compares it page by page. */
class PieceCheck {
  readonly #piece: Piece;
  readonly #engine: Engine;
  readonly #label: string;
  #hasher: Hasher | undefined;
  #position = 0;
  #first: Bytes | undefined;

  constructor(piece: Piece, engine: Engine, label: string) {
    this.#piece = piece;
    this.#engine = engine;
    this.#label = label;
  }

  /** Throws `integrity/pull.page` as soon as a page is complete and wrong. */
  async update(bytes: Bytes): Promise<void> {
    const { byteLength, pages } = this.#piece;
    const step = pages?.pageBytes ?? byteLength;
    let rest = bytes;
    while (rest.byteLength > 0) {
      const start = Math.floor(this.#position / step) * step;
      const end = Math.min(start + step, byteLength);
      const part = rest.subarray(0, end - this.#position);
      this.#hasher ??= await this.#engine.hasher("blake3");
      this.#hasher.update(part);
      this.#position += part.byteLength;
      rest = rest.subarray(part.byteLength);
      if (this.#position === end) this.#compare(this.#hasher.digest(), start, end);
    }
  }

  /** The part of the piece's digest that the journal keeps. */
  async finish(): Promise<Bytes> {
    return (this.#first ?? (await this.#engine.digest("blake3", new Uint8Array(0)))).subarray(0, CHECK_BYTES);
  }

  #compare(found: Bytes, start: number, end: number): void {
    this.#hasher = undefined;
    this.#first ??= found;
    const { offset, pages } = this.#piece;
    if (pages === undefined) return;
    const index = start / pages.pageBytes;
    const wanted = pages.digests.subarray(index * DIGEST_BYTES, (index + 1) * DIGEST_BYTES);
    if (equalBytes(wanted, found)) return;
    throw pageError({ label: this.#label, offset: offset + start, byteLength: end - start, wanted, found });
  }
}

/** Pieces of at least this length are written directly. */
const DIRECT_BYTES = 128 << 10;

/** The buffers of all connections. Their number and size bound the memory of a pull. */
export class Blocks {
  readonly #byteLength: number;
  readonly #free: Bytes[] = [];

  constructor(byteLength: number) {
    this.#byteLength = byteLength;
  }

  take(): Bytes {
    return this.#free.pop() ?? readMemory(this.#byteLength);
  }

  give(block: Bytes): void {
    this.#free.push(block);
  }
}

/** Gathers bytes into blocks, and writes one block while the next one fills: two per connection. */
class BlockWriter {
  readonly #partial: PartialFile;
  readonly #blocks: Blocks;
  #block: Bytes | undefined;
  #start = 0;
  #filled = 0;
  /** The write in progress, and those before it. */
  #written: Promise<void> = Promise.resolve();

  constructor(partial: PartialFile, blocks: Blocks) {
    this.#partial = partial;
    this.#blocks = blocks;
  }

  async add(offset: number, bytes: Bytes): Promise<void> {
    if (this.#filled === 0 && bytes.byteLength >= DIRECT_BYTES) return this.#writeDirectly(offset, bytes);
    let rest = bytes;
    let at = offset;
    while (rest.byteLength > 0) {
      const block = this.#open(at);
      const part = rest.subarray(0, block.byteLength - this.#filled);
      block.set(part, this.#filled);
      this.#filled += part.byteLength;
      at += part.byteLength;
      rest = rest.subarray(part.byteLength);
      if (this.#filled === block.byteLength) await this.#send();
    }
  }

  /** Writes without a copy: this connection waits for the disk, while the others continue. */
  async #writeDirectly(offset: number, bytes: Bytes): Promise<void> {
    const writing = this.#partial.write(offset, bytes);
    this.#written = Promise.all([this.#written, writing]).then(() => undefined);
    this.#written.catch(() => undefined); // the next caller that awaits it reports it
    await writing.catch(() => undefined);
  }

  /** Resolves when everything so far is written. */
  flush(): Promise<void> {
    void this.#send();
    return this.#written;
  }

  async close(): Promise<void> {
    if (this.#block !== undefined) this.#blocks.give(this.#block);
    this.#block = undefined;
    await this.#written.catch(() => undefined);
  }

  #open(offset: number): Bytes {
    this.#block ??= this.#blocks.take();
    if (this.#filled === 0) this.#start = offset;
    return this.#block;
  }

  /** Starts to write the block; resolves when the one before it is written, so that there are never more than two. */
  #send(): Promise<void> {
    const block = this.#block;
    const before = this.#written;
    if (block === undefined || this.#filled === 0) return before;
    const [offset, bytes] = [this.#start, block.subarray(0, this.#filled)];
    this.#block = undefined;
    this.#filled = 0;
    const writing = this.#partial.write(offset, bytes).finally(() => this.#blocks.give(block));
    this.#written = Promise.all([before, writing]).then(() => undefined);
    this.#written.catch(() => undefined); // the next caller that awaits it reports it
    return before;
  }
}
