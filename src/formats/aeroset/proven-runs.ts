import type { Bytes } from "../../base/bytes.ts";
import { encodeHex } from "../../base/text.ts";
import { DelegatingSource } from "../../bytes/layers/base.ts";
import type { ReadOptions, Source, StreamOptions } from "../../bytes/source.ts";
import type { Engine, Hasher } from "../../primitives/engine.ts";
import { tensorError } from "../aero/weights/hashed-tensor.ts";

/** A tensor of a shard, with its digest in the set's index. */
export interface StatedTensor {
  readonly name: string;
  /** Offset in the shard; tensors do not overlap. */
  readonly start: number;
  readonly end: number;
  /** 64 lower-case hex digits. */
  readonly hash: string;
}

/** One reader that goes through a tensor from its first byte. */
interface Pass {
  next: number;
  /** Undefined if a read of the pass failed, which its reader saw. */
  hashed: Promise<Hasher | undefined>;
}

/**
 * A shard of a part, read by the part's pages. Pages find damage, but they are in the part itself: an attacker who
 * makes another part makes its pages too. So every tensor that is read completely, in one read or in order, is compared
 * with its digest in the index, which the set pins. A tensor that is read in another way is doubted until `prove`. Once
 * proven, a tensor stays proven: its pages were right then, and they do not change.
 */
export class ProvenRuns extends DelegatingSource {
  readonly #tensors: readonly StatedTensor[];
  readonly #engine: Engine;
  /** Offset of the shard in the file. */
  readonly #offset: number;
  readonly #passes = new Map<StatedTensor, Pass>();
  readonly #proven = new Set<StatedTensor>();
  readonly #doubted = new Set<StatedTensor>();

  /** `tensors` are in order and do not overlap. */
  constructor(
    paged: Source,
    tensors: readonly StatedTensor[],
    place: { readonly engine: Engine; readonly offset: number },
  ) {
    super(paged);
    this.#tensors = tensors;
    this.#engine = place.engine;
    this.#offset = place.offset;
  }

  override async read(offset: number, byteLength: number, options?: ReadOptions): Promise<Bytes> {
    const reading = this.inner.read(offset, byteLength, options);
    const comparing = this.#follow(offset, byteLength, reading);
    // The caller may overwrite the bytes once it has them, so they are hashed first.
    const results = await Promise.allSettled(comparing);
    const bytes = await reading;
    for (const result of results) if (result.status === "rejected") throw result.reason;
    return bytes;
  }

  /** Holds back the last piece of a tensor until its digest is compared. */
  override async *stream(offset: number, options?: StreamOptions): AsyncGenerator<Bytes> {
    let position = offset;
    for await (const piece of this.inner.stream(offset, options)) {
      await Promise.all(this.#follow(position, piece.byteLength, Promise.resolve(piece)));
      position += piece.byteLength;
      yield piece;
    }
  }

  /** Reads again what was read only in parts, and throws if it is not what the index says. */
  async prove(signal: AbortSignal | undefined): Promise<void> {
    for (const { start, end } of [...this.#doubted]) {
      for await (const _ of this.stream(start, { byteLength: end - start, signal })); // the stream compares it
    }
  }

  #follow(offset: number, byteLength: number, reading: Promise<Bytes>): Promise<unknown>[] {
    const end = offset + byteLength;
    const comparing: Promise<unknown>[] = [];
    for (let i = this.#firstBehind(offset); i < this.#tensors.length; i++) {
      const tensor = this.#tensors[i] as StatedTensor;
      if (tensor.start >= end) break;
      if (this.#proven.has(tensor)) continue;
      const run = { start: Math.max(offset, tensor.start), end: Math.min(end, tensor.end) };
      const bytes = async (): Promise<Bytes> => (await reading).subarray(run.start - offset, run.end - offset);
      if (run.start === tensor.start && run.end === tensor.end) comparing.push(this.#compareWhole(tensor, bytes()));
      else this.#followRun(tensor, run, bytes(), comparing);
    }
    return comparing;
  }

  #followRun(
    tensor: StatedTensor,
    run: { readonly start: number; readonly end: number },
    bytes: Promise<Bytes>,
    comparing: Promise<unknown>[],
  ): void {
    this.#doubted.add(tensor);
    const pass = this.#passOf(tensor, run.start);
    if (pass === undefined) {
      bytes.catch(() => undefined); // its reader sees the error
      return;
    }
    pass.next = run.end;
    pass.hashed = this.#hash(tensor, run.end, bytes, pass.hashed);
    comparing.push(pass.hashed);
  }

  /** Starts a new pass at the tensor's beginning; undefined if the run continues no pass. */
  #passOf(tensor: StatedTensor, start: number): Pass | undefined {
    const known = this.#passes.get(tensor);
    if (start !== tensor.start) return known?.next === start ? known : undefined;
    const pass = { next: start, hashed: this.#engine.hasher("blake3") };
    this.#passes.set(tensor, pass);
    return pass;
  }

  async #hash(
    tensor: StatedTensor,
    end: number,
    reading: Promise<Bytes>,
    before: Promise<Hasher | undefined>,
  ): Promise<Hasher | undefined> {
    const [bytes, hasher] = await Promise.all([reading.catch(() => undefined), before]);
    if (bytes === undefined || hasher === undefined) return undefined;
    hasher.update(bytes);
    if (end === tensor.end) this.#compare(tensor, hasher.digest());
    return hasher;
  }

  async #compareWhole(tensor: StatedTensor, reading: Promise<Bytes>): Promise<void> {
    const bytes = await reading.catch(() => undefined);
    if (bytes !== undefined) this.#compare(tensor, await this.#engine.digest("blake3", bytes));
  }

  #compare(tensor: StatedTensor, digest: Bytes): void {
    this.#passes.delete(tensor);
    const { name, start, end, hash } = tensor;
    const found = encodeHex(digest);
    if (found !== hash) {
      const place = { label: this.label, offset: this.#offset + start, byteLength: end - start };
      throw tensorError({ name, hash, ...place }, found);
    }
    this.#proven.add(tensor);
    this.#doubted.delete(tensor);
  }

  /** The first tensor that ends after the offset. */
  #firstBehind(offset: number): number {
    let low = 0;
    let high = this.#tensors.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#tensors[middle] as StatedTensor).end > offset) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}
