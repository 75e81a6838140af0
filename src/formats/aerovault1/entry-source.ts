import { type Bytes, concatBytes, EMPTY_BYTES } from "../../base/bytes.ts";
import { IntegrityError } from "../../base/errors.ts";
import { printable } from "../../base/text.ts";
import { untilAborted } from "../../bytes/abort.ts";
import { allocateFor, deliver, ReadGuard } from "../../bytes/layers/base.ts";
import type { ReadOptions, Source, StreamOptions } from "../../bytes/source.ts";
import { AES_BLOCK_BYTES, type AesBlocks } from "../../primitives/cipher/aes.ts";
import { type ContentContext, type EntryContent, type PasswordProof, STEP_BYTES } from "./entry-content.ts";
import { applyWinzip, wipeEntryKeys } from "./winzip-aes.ts";

/** The one deflated file that is held in memory, for readers that jump around in it. */
export class KeptContent {
  #owner: EntryReader | undefined;
  #bytes: Promise<Bytes> | undefined;

  get(owner: EntryReader, inflate: () => Promise<Bytes>): Promise<Bytes> {
    if (this.#owner === owner && this.#bytes !== undefined) return this.#bytes;
    const bytes = inflate();
    this.#owner = owner;
    this.#bytes = bytes;
    bytes.catch(() => {
      if (this.#bytes === bytes) this.#bytes = undefined;
    });
    return bytes;
  }

  clear(): void {
    this.#owner = undefined;
    this.#bytes = undefined;
  }
}

export interface Entry1Options {
  readonly kept: KeptContent;
  /** Deflated files up to this length are held whole. */
  readonly keptBytes: number;
}

/** The bytes of one file of a vault of version 1; the vault owns the sources below. */
export class Entry1Source implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #reader: EntryReader;
  readonly #options: Entry1Options;
  readonly #guard: ReadGuard;
  readonly #forward: ForwardReader;

  constructor(reader: EntryReader, options: Entry1Options) {
    const { row, label } = reader.content;
    this.label = `${label}::${row.path}`;
    this.byteLength = row.size;
    this.#reader = reader;
    this.#options = options;
    this.#guard = new ReadGuard(this.label, this.byteLength);
    this.#forward = new ForwardReader(() => reader.read(0, row.size, undefined));
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    const { into, signal } = options;
    if (byteLength === 0) return into ?? EMPTY_BYTES;
    const bytes = await this.#readBytes(offset, byteLength, signal);
    this.#guard.checkOpen();
    return deliver(bytes, into);
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = this.#guard.checkStream(offset, options);
    for await (const piece of this.#reader.read(offset, offset + byteLength, options.signal)) {
      this.#guard.checkOpen();
      yield piece;
      options.signal?.throwIfAborted();
    }
  }

  async close(): Promise<void> {
    this.#guard.close();
    await this.#forward.close();
  }

  async #readBytes(offset: number, byteLength: number, signal: AbortSignal | undefined): Promise<Bytes> {
    const end = offset + byteLength;
    if (this.#reader.method === "stored") return collect(this.#reader.read(offset, end, signal));
    if (this.byteLength > this.#options.keptBytes) {
      return this.#forward.read(offset, allocateFor(byteLength, this.label));
    }
    // Without the caller's signal: other callers may be waiting for the same bytes.
    const whole = await this.#options.kept.get(this.#reader, () =>
      collect(this.#reader.read(0, this.byteLength, undefined)),
    );
    return whole.subarray(offset, end);
  }
}

async function collect(pieces: AsyncIterable<Bytes>): Promise<Bytes> {
  const found: Bytes[] = [];
  for await (const piece of pieces) found.push(piece);
  return found.length === 1 ? (found[0] as Bytes) : concatBytes(found);
}

/** The plain bytes of one file. Hands out none before all of its ciphertext is authenticated. */
export class EntryReader {
  readonly content: EntryContent;
  readonly #context: ContentContext;
  readonly #proof: PasswordProof;
  #blocks: AesBlocks | undefined;

  constructor(content: EntryContent, context: ContentContext, proof: PasswordProof) {
    this.content = content;
    this.#context = context;
    this.#proof = proof;
  }

  get method(): "stored" | "deflated" {
    return this.content.row.aes?.method ?? "stored";
  }

  /** The plain bytes `from` … `to`, in pieces; a deflated file is inflated from its start. */
  async *read(from: number, to: number, signal: AbortSignal | undefined): AsyncGenerator<Bytes> {
    const blocks = await this.#open(signal);
    const whole = from === 0 && to === this.content.row.size;
    const pieces = this.method === "stored" ? this.#decipher(blocks, from, to, signal) : this.#inflate(blocks, signal);
    let position = this.method === "stored" ? from : 0;
    let crc = 0;
    for await (const piece of pieces) {
      if (whole) crc = await this.#context.engine.crc32(piece, crc);
      const wanted = piece.subarray(Math.max(from - position, 0), Math.max(to - position, 0));
      position += piece.byteLength;
      if (wanted.byteLength > 0) yield wanted;
      if (position >= to && !whole) return;
    }
    if (position < to) throw this.#sizeFault(position);
    if (whole) this.#checkCrc(crc);
  }

  wipe(): void {
    this.#blocks?.wipe();
    this.#blocks = undefined;
  }

  /** Each caller uses its own signal: an aborted one must not fail the others. */
  async #open(signal: AbortSignal | undefined): Promise<AesBlocks> {
    const known = this.#blocks;
    if (known !== undefined) return known;
    const blocks = await this.#authenticate(signal);
    return this.#keep(blocks);
  }

  /** If two callers finish together, keeps the first one's blocks, which are in use. */
  #keep(blocks: AesBlocks): AesBlocks {
    if (this.#blocks === undefined) this.#blocks = blocks;
    else blocks.wipe();
    return this.#blocks;
  }

  async #authenticate(signal: AbortSignal | undefined): Promise<AesBlocks> {
    const { content } = this;
    const password = await untilAborted(this.#proof.get(), signal);
    const keys = await content.keysFor(password, signal);
    const start = await content.cipherOffset();
    if (keys === undefined) {
      throw content.damage("its salt or verifier is damaged: the password opens other entries, not this one", start);
    }
    try {
      if (!(await content.isAuthentic(keys, signal))) {
        throw content.damage("its HMAC must match, and does not", start + content.cipherBytes);
      }
      return await this.#context.engine.aesBlocks(keys.cipher);
    } finally {
      wipeEntryKeys(keys);
    }
  }

  /** Decrypted bytes of the range, which may begin and end inside a block. */
  async *#decipher(
    blocks: AesBlocks,
    from: number,
    to: number,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<Bytes> {
    const start = await this.content.cipherOffset();
    for (let at = from - (from % AES_BLOCK_BYTES); at < to; at += STEP_BYTES) {
      const stored = await this.#context.source.read(start + at, Math.min(STEP_BYTES, to - at), { signal });
      const plain = applyWinzip(blocks, stored, at / AES_BLOCK_BYTES);
      yield plain.subarray(Math.max(from - at, 0));
    }
  }

  async *#inflate(blocks: AesBlocks, signal: AbortSignal | undefined): AsyncGenerator<Bytes> {
    const { content } = this;
    const inflate = await this.#context.engine.inflater();
    const at = { source: content.label, offset: await content.cipherOffset() };
    const options = { maxBytes: content.row.size, at };
    yield* inflate(this.#decipher(blocks, 0, content.cipherBytes, signal), options);
  }

  #sizeFault(found: number): Error {
    const { content } = this;
    const problem = `it must have ${content.row.size} bytes, found ${found}`;
    return content.fault("format/aerovault1.size", problem, content.row.at);
  }

  /** AE-1 keeps a CRC besides the HMAC: a mismatch shows a faulty writer, not damage. */
  #checkCrc(found: number): void {
    const { row, label } = this.content;
    if (row.aes?.version !== 1 || row.crc === found) return;
    const message = `Cannot trust "${printable(row.path)}" of the vault: its CRC-32 must be that of its bytes, and is not`;
    throw new IntegrityError("integrity/aerovault1.crc", message, { source: label, offset: row.localOffset });
  }
}

/**
 * Reads ranges of something that can only be read from its start. A forward read continues where the last one ended; a
 * backward read starts over. One read at a time; the others wait.
 */
class ForwardReader {
  readonly #begin: () => AsyncGenerator<Bytes>;
  #pieces: AsyncGenerator<Bytes> | undefined;
  #piece: Bytes = EMPTY_BYTES;
  /** Offset of the piece's first byte. */
  #position = 0;
  #last: Promise<unknown> = Promise.resolve();

  constructor(begin: () => AsyncGenerator<Bytes>) {
    this.#begin = begin;
  }

  /** Fills `target` from `offset` on; the range is within the content. */
  read(offset: number, target: Bytes): Promise<Bytes> {
    const reading = this.#last.then(() => this.#fill(offset, target));
    this.#last = reading.catch(() => undefined);
    return reading;
  }

  async close(): Promise<void> {
    await this.#last;
    await this.#restart();
  }

  async #restart(): Promise<void> {
    const pieces = this.#pieces;
    this.#pieces = undefined;
    this.#piece = EMPTY_BYTES;
    this.#position = 0;
    await pieces?.return(undefined);
  }

  async #fill(offset: number, target: Bytes): Promise<Bytes> {
    if (offset < this.#position) await this.#restart();
    this.#pieces ??= this.#begin();
    try {
      for (let done = 0; done < target.byteLength; ) {
        const from = offset + done - this.#position;
        const available = this.#piece.subarray(Math.max(from, 0), Math.max(from, 0) + target.byteLength - done);
        target.set(available, done);
        done += available.byteLength;
        if (done < target.byteLength && !(await this.#advance(this.#pieces))) break;
      }
      return target;
    } catch (error) {
      await this.#restart();
      throw error;
    }
  }

  /** False at the end. */
  async #advance(pieces: AsyncGenerator<Bytes>): Promise<boolean> {
    const { done, value } = await pieces.next();
    if (done === true) return false;
    this.#position += this.#piece.byteLength;
    this.#piece = value;
    return true;
  }
}
