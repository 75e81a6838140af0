import type { Bytes } from "../../base/bytes.ts";
import { encodeHex } from "../../base/hex.ts";
import { DelegatingSource } from "../../bytes/delegating.ts";
import { runOf, type SliceSource, type WithinSource } from "../../bytes/slice.ts";
import type { ReadOptions, Source, StreamOptions } from "../../bytes/source.ts";
import type { Tensor } from "../../model/tensor.ts";
import type { Engine } from "../../primitives/engine.ts";
import { tensorError } from "../aero/hashed-tensor.ts";

interface IndexDigest {
  /** 64 lower-case hex digits: `hash_b3` of the global index. */
  readonly hash: string;
  readonly engine: Engine;
}

/**
 * A tensor of a part that is read by the part's pages. Pages find damage, but the part states them itself: whoever makes
 * another part makes them, too. So where all of the tensor passes anyway, it is compared with the digest of the global
 * index, which the set pins. A run of it is compared with the pages only, since no more of it is there.
 */
export function wholeTensorSource(tensor: Tensor, digest: IndexDigest): Source {
  return new WholeTensorSource(tensor, digest);
}

class WholeTensorSource extends DelegatingSource implements WithinSource {
  readonly #tensor: Tensor;
  readonly #paged: Source;
  readonly #digest: IndexDigest;

  constructor(tensor: Tensor, digest: IndexDigest) {
    const paged = tensor.source();
    super(paged);
    this.#tensor = tensor;
    this.#paged = paged;
    this.#digest = digest;
  }

  get within(): SliceSource | undefined {
    return runOf(this.#paged);
  }

  override async read(offset: number, byteLength: number, options?: ReadOptions): Promise<Bytes> {
    const bytes = await this.#paged.read(offset, byteLength, options);
    if (byteLength === this.byteLength) this.#compare(await this.#digest.engine.digest("blake3", bytes));
    return bytes;
  }

  override stream(offset: number, options: StreamOptions = {}): AsyncIterable<Bytes> {
    const isWhole = offset === 0 && (options.byteLength ?? this.byteLength) === this.byteLength;
    return isWhole ? this.#streamWhole(options) : this.#paged.stream(offset, options);
  }

  /** The last piece is held back until the digest of all was compared. */
  async *#streamWhole(options: StreamOptions): AsyncGenerator<Bytes> {
    const hasher = await this.#digest.engine.hasher("blake3");
    let passed = 0;
    for await (const piece of this.#paged.stream(0, options)) {
      hasher.update(piece);
      passed += piece.byteLength;
      if (passed === this.byteLength) this.#compare(hasher.digest());
      yield piece;
    }
  }

  #compare(found: Bytes): void {
    const { name, offset, byteLength } = this.#tensor;
    const hex = encodeHex(found);
    if (hex === this.#digest.hash) return;
    throw tensorError({ name, label: this.label, offset, byteLength, hash: this.#digest.hash }, hex);
  }
}
