import { type Bytes, EMPTY_BYTES } from "../../base/bytes.ts";
import type { Extent } from "../../bytes/extents.ts";
import type { Engine, Hasher } from "../../primitives/engine.ts";

/** The pages of a shard (AIP-0002), from its start; the last one may be short. */
export function* pageExtents(shardBytes: number, pageBytes: number): Generator<Extent> {
  for (let offset = 0; offset < shardBytes; offset += pageBytes) {
    yield { offset, byteLength: Math.min(pageBytes, shardBytes - offset) };
  }
}

/**
 * BLAKE3-256 of consecutive runs of a stream of bytes. Runs come in order and do not overlap, bytes between them
 * belong to none; an empty run has the digest of nothing.
 */
export class RunDigests {
  readonly #engine: Engine;
  readonly #runs: Iterator<Extent>;
  readonly #digests: Bytes[] = [];
  #run: Extent | undefined;
  #hasher: Hasher | undefined;
  /** Bytes of the run that the hasher has. */
  #fed = 0;

  constructor(engine: Engine, runs: Iterable<Extent>) {
    this.#engine = engine;
    this.#runs = runs[Symbol.iterator]();
    this.#next();
  }

  /** Takes the bytes that stand at `position` of the stream; calls follow each other without gap. */
  async feed(bytes: Bytes, position: number): Promise<void> {
    const end = position + bytes.byteLength;
    for (let run = this.#run; run !== undefined; run = this.#run) {
      const runEnd = run.offset + run.byteLength;
      const from = Math.max(position, run.offset);
      const to = Math.min(end, runEnd);
      if (run.byteLength > 0) {
        if (from >= to) return;
        await this.#take(bytes.subarray(from - position, to - position), run);
        if (to < runEnd) return;
      } else await this.#take(EMPTY_BYTES, run);
      this.#next();
    }
  }

  /** The digests in the order of the runs, once all bytes were fed. */
  async finish(): Promise<readonly Bytes[]> {
    await this.feed(EMPTY_BYTES, Number.MAX_SAFE_INTEGER);
    if (this.#run !== undefined) throw new Error(`no bytes came for the run at ${this.#run.offset}`);
    return this.#digests;
  }

  /** Adds a part of the run; one that is the whole run costs no object of its own. */
  async #take(part: Bytes, run: Extent): Promise<void> {
    if (part.byteLength === run.byteLength) {
      this.#digests.push(await this.#engine.digest("blake3", part));
      return;
    }
    this.#hasher ??= await this.#engine.hasher("blake3");
    this.#hasher.update(part);
    this.#fed += part.byteLength;
    if (this.#fed < run.byteLength) return;
    this.#digests.push(this.#hasher.digest());
    this.#hasher = undefined;
    this.#fed = 0;
  }

  #next(): void {
    const next = this.#runs.next();
    this.#run = next.done === true ? undefined : next.value;
  }
}
