import { type Bytes, concatBytes } from "../../base/bytes.ts";
import type { SourceDescriptor } from "../../bytes/source.ts";
import type { ChunkCutter } from "../../formats/aerovault/write/chunk-cutter.ts";
import type { SealQueue } from "./seal-work.ts";

/** What one job seals: enough that messages do not count, little enough that several fit into memory. */
const SEGMENT_BYTES = 8 << 20;

export interface ChunkStreamOptions {
  readonly cutter: ChunkCutter;
  /** Where given, jobs read the file themselves, and nothing of it is kept here. */
  readonly descriptor: SourceDescriptor | undefined;
  readonly queue: SealQueue;
  /** Hears of the whole file once its last chunk is stored. */
  readonly onDone: (ids: readonly string[], size: number) => void;
}

/** One file on its way into the vault: cut here, sealed by jobs of several chunks each. */
export class ChunkStream {
  readonly #options: ChunkStreamOptions;
  readonly #ids: string[] = [];
  /** Chunks that are cut and not handed on. */
  #lengths: number[] = [];
  #cutBytes = 0;
  /** Where the first of them begins. */
  #start = 0;
  /** Bytes from `start` on, where there is no descriptor. */
  #held: Bytes[] = [];
  #heldBytes = 0;

  constructor(options: ChunkStreamOptions) {
    this.#options = options;
  }

  /** Takes the next piece, which may change after the promise has settled. */
  async push(piece: Bytes): Promise<void> {
    if (this.#options.descriptor === undefined) {
      this.#held.push(piece.slice());
      this.#heldBytes += piece.byteLength;
    }
    this.#take(this.#options.cutter.push(piece));
    while (this.#cutBytes >= SEGMENT_BYTES) await this.#flush();
  }

  async end(): Promise<void> {
    this.#take(this.#options.cutter.end());
    while (this.#lengths.length > 0) await this.#flush();
    // Behind all jobs of this file, so that their results are in.
    await this.#options.queue.after(() => this.#options.onDone(this.#ids, this.#start));
  }

  #take(lengths: readonly number[]): void {
    for (const length of lengths) {
      this.#lengths.push(length);
      this.#cutBytes += length;
    }
  }

  async #flush(): Promise<void> {
    const { queue, descriptor } = this.#options;
    const lengths: number[] = [];
    let byteLength = 0;
    for (const length of this.#lengths) {
      if (byteLength > 0 && byteLength + length > SEGMENT_BYTES) break;
      lengths.push(length);
      byteLength += length;
    }
    this.#lengths = this.#lengths.slice(lengths.length);
    this.#cutBytes -= byteLength;
    const offset = this.#start;
    this.#start += byteLength;
    const work =
      descriptor === undefined
        ? { kind: "bytes" as const, bytes: this.#shift(byteLength), lengths }
        : { kind: "range" as const, descriptor, offset, lengths };
    await queue.push(work, ({ ids }) => {
      for (const id of ids) this.#ids.push(id);
    });
  }

  /** The first bytes that are held, as one buffer of their own. */
  #shift(byteLength: number): Bytes {
    const whole = this.#held.length === 1 ? (this.#held[0] as Bytes) : concatBytes(this.#held);
    this.#heldBytes -= byteLength;
    this.#held = this.#heldBytes === 0 ? [] : [whole.subarray(byteLength)];
    return whole.slice(0, byteLength);
  }
}
