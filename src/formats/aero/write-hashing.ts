import type { Bytes } from "../../base/bytes.ts";
import type { Sink } from "../../bytes/sink.ts";
import type { RunDigests } from "./hash-plan.ts";

/** Every digest takes a block while it is in the core's second-level cache. */
const BLOCK_BYTES = 256 << 10;
/** Shorter appends are gathered into blocks: 100 000 tensors of 70 bytes are a few writes. */
const SMALL_BYTES = 64 << 10;
/** Blocks kept for gathering again. */
const KEPT_BLOCKS = 4;

const DONE: Promise<void> = Promise.resolve();

/**
 * A Sink that hashes what passes through it on the way to another one: every byte is read once, and what is hashed is
 * what was written. Hashing runs on the calling thread while the system's threads read and write.
 */
export class HashingSink implements Sink {
  readonly label: string;
  readonly #sink: Sink;
  readonly #digests: readonly RunDigests[];
  readonly #free: Bytes[] = [];
  #hashed: Promise<void> = DONE;
  /** Bytes handed to the digests. */
  #position = 0;
  #block: Bytes | undefined;
  #gathered = 0;
  /** What was flushed last; it fails where anything before it failed. */
  #flushed: Promise<void> = DONE;

  constructor(sink: Sink, digests: readonly RunDigests[]) {
    this.label = sink.label;
    this.#sink = sink;
    this.#digests = digests;
  }

  get position(): number {
    return this.#sink.position + this.#gathered;
  }

  /** Copies what is small, and then waits only where a block is full: that keeps the gathered bytes bounded. */
  append(bytes: Bytes): Promise<void> {
    if (bytes.byteLength < SMALL_BYTES) return this.#gather(bytes);
    this.#flush();
    return this.#pass(bytes);
  }

  /** Resolves when all that was appended has been hashed and handed on. */
  async settled(): Promise<void> {
    this.#flush();
    await Promise.all([this.#flushed, this.#hashed]);
  }

  async commit(): Promise<void> {
    await this.settled();
    await this.#sink.commit();
  }

  abort(): Promise<void> {
    return this.#sink.abort();
  }

  #gather(bytes: Bytes): Promise<void> {
    const isFull = this.#gathered + bytes.byteLength > BLOCK_BYTES;
    if (isFull) this.#flush();
    this.#block ??= this.#free.pop() ?? new Uint8Array(BLOCK_BYTES);
    this.#block.set(bytes, this.#gathered);
    this.#gathered += bytes.byteLength;
    return isFull ? this.#flushed : DONE;
  }

  #flush(): void {
    const block = this.#block;
    if (block === undefined) return;
    const bytes = block.subarray(0, this.#gathered);
    this.#block = undefined;
    this.#gathered = 0;
    const passed = this.#pass(bytes).then(() => {
      if (this.#free.length < KEPT_BLOCKS) this.#free.push(block);
    });
    this.#flushed = Promise.all([this.#flushed, passed]).then(() => undefined);
    this.#flushed.catch(() => undefined); // told by `settled`, and by the append that fills the next block
  }

  /** Blocks are hashed in the order of the appends; a failure fails every later one. */
  async #pass(bytes: Bytes): Promise<void> {
    const start = this.#position;
    this.#position += bytes.byteLength;
    const written = this.#sink.append(bytes);
    this.#hashed = this.#hashed.then(() => this.#hash(bytes, start));
    this.#hashed.catch(() => undefined); // awaited right below
    await Promise.all([written, this.#hashed]);
  }

  async #hash(bytes: Bytes, start: number): Promise<void> {
    for (let done = 0; done < bytes.byteLength; done += BLOCK_BYTES) {
      const block = bytes.subarray(done, done + BLOCK_BYTES);
      for (const digests of this.#digests) await digests.feed(block, start + done);
    }
  }
}
