import type { Bytes } from "../../../base/bytes.ts";
import { FormatError, type TareError } from "../../../base/errors.ts";
import { failingSource } from "../../../bytes/derived.ts";
import { sliceSource } from "../../../bytes/slice.ts";
import type { Source } from "../../../bytes/source.ts";
import type { Tensor, TensorReader } from "../../../model/tensor.ts";
import type { PageHashes } from "../chunks/digests.ts";
import { type Chunk, chunkAt, chunkTitle, isCompressed } from "../chunks/toc.ts";
import { FOURCC, pageHashName, shardName } from "../layout.ts";
import { checkPageBytes, PageSource, readPages, type ShardContext } from "./pages.ts";
import { ShardProof } from "./shard-proof.ts";

/** Shards whose checked pages are kept: a reader that goes through a file in order is in one shard, or between two. */
const ACTIVE_SHARDS = 2;

/** A WTSH chunk, or a missing one, as the tensors' reader. */
export class Shard implements TensorReader {
  /** The number that the index uses. */
  readonly id: number;
  readonly name: string;
  readonly chunk: Chunk | undefined;
  /** The PHSH chunk that belongs to it. */
  readonly pages: Chunk | undefined;
  /** Why nothing can be read from it. */
  readonly problem: TareError | undefined;
  readonly #shards: Shards;
  #checked: Source | undefined;

  constructor(id: number, name: string, shards: Shards) {
    this.id = id;
    this.name = name;
    this.#shards = shards;
    this.chunk = shards.weights.get(this.name);
    this.pages = shards.pages.get(pageHashName(this.name));
    this.problem = this.#findProblem();
  }

  /** Bytes of the shard; 0 if it is missing or unreadable. */
  get byteLength(): number {
    return this.problem === undefined ? (this.chunk?.byteLength ?? 0) : 0;
  }

  source(tensor: Tensor): Source {
    const { chunk, problem } = this;
    const { label } = this.#shards.context;
    if (chunk === undefined || problem !== undefined) {
      return failingSource(label, tensor.byteLength, problem ?? this.#missing());
    }
    this.#checked ??=
      this.pages === undefined ? this.#shards.proof.follow(chunk, this.stored()) : this.#pageSource(chunk, this.pages);
    return sliceSource(this.#checked, tensor.offset - chunk.offset, tensor.byteLength);
  }

  /** The shard's bytes, unchecked. */
  stored(): Source {
    const { chunk } = this;
    if (chunk === undefined) return failingSource(this.#shards.context.label, 0, this.#missing());
    return sliceSource(this.#shards.context.source, chunk.offset, chunk.byteLength);
  }

  /** The page digests, read and checked; undefined if the shard has none. */
  readPages(signal: AbortSignal | undefined): Promise<PageHashes> | undefined {
    const { chunk, pages } = this;
    if (chunk === undefined || pages === undefined) return undefined;
    return readPages({ ...this.#shards.context, signal }, pages, chunk.byteLength);
  }

  /** The stored page digests if opening the file has read them; unchecked. */
  preloadedPages(): Bytes | undefined {
    return this.pages === undefined ? undefined : this.#shards.context.preloaded.get(this.pages);
  }

  #pageSource(chunk: Chunk, pages: Chunk): Source {
    const { context } = this.#shards;
    return new PageSource({
      stored: this.stored(),
      offset: chunk.offset,
      name: this.name,
      engine: context.engine,
      tensors: context.tensors,
      onUse: (source) => this.#shards.use(source),
      readPages: async () => {
        const hashes = await readPages(context, pages, chunk.byteLength);
        checkPageBytes({ ...hashes, shardBytes: chunk.byteLength }, pages, context);
        return hashes;
      },
    });
  }

  #findProblem(): TareError | undefined {
    const { chunk } = this;
    if (chunk === undefined) return this.#missing();
    if (!isCompressed(chunk)) return undefined;
    const message = `Cannot read from ${chunkTitle(chunk)}: weights must be stored raw, found the flag COMPRESSED_ZSTD`;
    return new FormatError("format/aero.compressed", message, chunkAt(this.#shards.context.label, chunk));
  }

  #missing(): FormatError {
    const message = `Cannot read from shard ${this.id}: the file has no ${FOURCC.weights} chunk "${this.name}"`;
    return new FormatError("format/aero.missing-shard", message, {
      source: this.#shards.context.label,
      offset: 0,
      path: "toc",
    });
  }
}

/** The shards of a file by id, made on first use. */
export class Shards {
  readonly context: ShardContext;
  /** The first WTSH chunk of each name, and the first PHSH chunk. */
  readonly weights: ReadonlyMap<string, Chunk>;
  readonly pages: ReadonlyMap<string, Chunk>;
  /** Chunks that another one of the same type and name hides. */
  readonly hidden: readonly Chunk[];
  /** Compares the shards that were read without being checked. */
  readonly proof: ShardProof;
  readonly #byId = new Map<number, Shard>();
  #active: PageSource[] = [];

  constructor(context: ShardContext) {
    this.context = context;
    this.proof = new ShardProof(context);
    const hidden: Chunk[] = [];
    this.weights = firstByName(context.toc.chunks, FOURCC.weights, hidden);
    this.pages = firstByName(context.toc.chunks, FOURCC.pages, hidden);
    this.hidden = hidden;
  }

  get(id: number): Shard {
    const known = this.#byId.get(id);
    if (known !== undefined) return known;
    const shard = new Shard(id, shardName(id), this);
    this.#byId.set(id, shard);
    return shard;
  }

  /** A shard by its chunk's name, which need not be one that an index can refer to. */
  named(name: string): Shard {
    return new Shard(-1, name, this);
  }

  /** Keeps the checked pages of the shards in use; the others release theirs. */
  use(source: PageSource): void {
    if (this.#active[0] === source) return;
    const others = this.#active.filter((other) => other !== source);
    for (const dropped of others.splice(ACTIVE_SHARDS - 1)) dropped.release();
    this.#active = [source, ...others];
  }
}

function firstByName(chunks: readonly Chunk[], fourcc: string, hidden: Chunk[]): Map<string, Chunk> {
  const byName = new Map<string, Chunk>();
  for (const chunk of chunks) {
    if (chunk.fourcc !== fourcc) continue;
    if (byName.has(chunk.name)) hidden.push(chunk);
    else byName.set(chunk.name, chunk);
  }
  return byName;
}
