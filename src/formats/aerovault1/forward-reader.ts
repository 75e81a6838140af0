import { type Bytes, EMPTY_BYTES } from "../../base/bytes.ts";

/**
 * Ranges of something that can only be read from its start: going forward goes on where the last read ended, going back
 * begins again. One read at a time; the others wait.
 */
export class ForwardReader {
  readonly #begin: () => AsyncGenerator<Bytes>;
  #pieces: AsyncGenerator<Bytes> | undefined;
  #piece: Bytes = EMPTY_BYTES;
  /** Of the piece's first byte. */
  #position = 0;
  #last: Promise<unknown> = Promise.resolve();

  constructor(begin: () => AsyncGenerator<Bytes>) {
    this.#begin = begin;
  }

  /** Fills `target` from `offset` on; the range lies within what there is. */
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
