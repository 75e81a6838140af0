import { type Bytes, equalBytes } from "../../../base/bytes.ts";
import { isTareError, LimitError } from "../../../base/errors.ts";
import { encodeHex } from "../../../base/text.ts";
import type { Extent } from "../../../bytes/extents.ts";
import { type Finding, findingFromError } from "../../../model/finding.ts";
import type { VerifyContext } from "../../../model/format.ts";
import { isFarAway } from "../../../primitives/ranges.ts";
import { checkRaw, checkRawSize, compareHash } from "../chunks/chunk.ts";
import type { PageHashes } from "../chunks/digests.ts";
import { type Chunk, chunkAt, chunkTitle } from "../chunks/toc.ts";
import { FOURCC, HASH_BYTES, pageHashName } from "../layout.ts";
import type { AeroModel } from "../model.ts";
import type { TensorHash } from "../tensors.ts";
import { tensorError } from "./hashed-tensor.ts";
import { pageError } from "./pages.ts";
import type { Shard } from "./shards.ts";
import { namesIn } from "./tensor-map.ts";

/** Shards hashed at once: enough to keep the engine's workers busy, and few enough for a disk. */
const CONCURRENCY = 4;
/** Extents of one job, which a worker gets in one message. */
export const JOB_EXTENTS = 1 << 16;
/** Such jobs of one shard at once. Their extents are made when needed: a page may be as short as one byte. */
const JOBS = 2;
/** Tensors may share bytes; if they add up to more than this many times the shard's length, hashing them is refused. */
export const MAX_SHARING = 16;
/** Damaged pages of one shard that are reported one by one. */
const MAX_PAGE_FINDINGS = 1000;

/** Checks every byte of every shard: chunk digest, page digests and tensor digests in one pass. */
export async function* verifyShards(model: AeroModel, context: VerifyContext): AsyncGenerator<Finding> {
  const chunks = model.content.control.toc.chunks.filter((chunk) => chunk.fourcc === FOURCC.weights);
  const byChunk = hashesByChunk(model);
  const run = (chunk: Chunk): Promise<Finding[]> => {
    const work = new ShardWork({ model, context, chunk, tensors: byChunk.get(chunk) ?? [] });
    return work.run(chunks.length);
  };
  const running: Promise<Finding[]>[] = [];
  try {
    for (const chunk of chunks) {
      const next = run(chunk);
      next.catch(() => undefined); // awaited below, in order; until then a failure must not count as unhandled
      running.push(next);
      if (running.length >= CONCURRENCY) yield* (await running.shift()) ?? [];
    }
    while (running.length > 0) yield* (await running.shift()) ?? [];
  } finally {
    await Promise.allSettled(running);
  }
}

function hashesByChunk({ content }: AeroModel): Map<Chunk, TensorHash[]> {
  const byChunk = new Map<Chunk, TensorHash[]>();
  for (const row of content.index.hashes) {
    if (row.shard.chunk === undefined) continue;
    const rows = byChunk.get(row.shard.chunk);
    if (rows === undefined) byChunk.set(row.shard.chunk, [row]);
    else rows.push(row);
  }
  return byChunk;
}

interface ShardTask {
  readonly model: AeroModel;
  readonly context: VerifyContext;
  readonly chunk: Chunk;
  /** Tensors of this shard with their own digest. */
  readonly tensors: readonly TensorHash[];
}

/** A digest to compute, and what to compare it with. */
interface Check extends Extent {
  readonly compare: (found: Bytes) => readonly Finding[];
}

/** One WTSH chunk. */
class ShardWork {
  readonly #task: ShardTask;
  readonly #findings: Finding[] = [];
  #badPages = 0;

  constructor(task: ShardTask) {
    this.#task = task;
  }

  async run(shardCount: number): Promise<Finding[]> {
    const { chunk, context, model } = this.#task;
    if (!this.#isSound()) return this.#findings;
    const chunkCheck: Check = {
      offset: chunk.offset,
      byteLength: chunk.byteLength,
      compare: (found) => this.#compareChunk(found),
    };
    const pages = await this.#readPages();
    const tensors = this.#tensorChecks();
    const partCount = (pages?.pageCount ?? 0) + tensors.length;
    // Two workers hash a single shard if reading it twice costs little; else it is read once, even if that is slower.
    const isLocal = !isFarAway(model.content.source);
    const apart = partCount > JOB_EXTENTS || (isLocal && shardCount === 1 && partCount > 0);
    const parts = this.#partChecks(pages, tensors);
    if (apart) await Promise.all([this.#hash([chunkCheck], context.onProgress), this.#hashParts(parts)]);
    else await this.#hash([chunkCheck, ...parts], context.onProgress);
    this.#tellMorePages();
    context.count("chunks");
    context.count("shards");
    context.count("bytes", chunk.byteLength);
    return this.#findings.sort((a, b) => (a.at.offset ?? 0) - (b.at.offset ?? 0));
  }

  *#partChecks(pages: PageHashes | undefined, tensors: readonly Check[]): Generator<Check> {
    for (let index = 0; index < (pages?.pageCount ?? 0); index++) yield this.#pageCheck(pages as PageHashes, index);
    yield* tensors;
  }

  async #hashParts(parts: Iterable<Check>): Promise<void> {
    const jobs = slices(parts, JOB_EXTENTS);
    const run = async (): Promise<void> => {
      for (const checks of jobs) await this.#hash(checks, undefined);
    };
    await Promise.all(Array.from({ length: JOBS }, run));
  }

  async #hash(checks: readonly Check[], onProgress: VerifyContext["onProgress"]): Promise<void> {
    const { model, context } = this.#task;
    const { source } = model.content;
    const extents = checks.map(({ offset, byteLength }) => ({ offset, byteLength }));
    const digests = await context.engine.digestExtents("blake3", source, extents, {
      signal: context.signal,
      onProgress,
    });
    for (const [i, check] of checks.entries()) {
      for (const finding of check.compare(digests[i] as Bytes)) this.#findings.push(finding);
    }
  }

  #isSound(): boolean {
    const { chunk, model } = this.#task;
    const { label } = model.content.source;
    try {
      checkRaw(chunk, label);
      checkRawSize(chunk, label);
      return true;
    } catch (error) {
      this.#report(error);
      return false;
    }
  }

  #compareChunk(found: Bytes): Finding[] {
    const { chunk, model, context } = this.#task;
    const problem = compareHash(chunk, found, model.chunkContext(context));
    return problem === undefined ? [] : [{ ...findingFromError(problem), name: chunk.name }];
  }

  async #readPages(): Promise<PageHashes | undefined> {
    const { chunk, model, context } = this.#task;
    const shard = this.#shard();
    if (shard?.pages === undefined) return undefined;
    try {
      const pages = await shard.readPages(context.signal);
      if (pages === undefined) return undefined;
      const { shardName } = pages;
      if (shardName !== chunk.name) {
        const message = `${chunkTitle(shard.pages)} must name the shard "${chunk.name}", found ${JSON.stringify(shardName)}`;
        const at = chunkAt(model.content.source.label, shard.pages, "phsh.shard_name");
        this.#findings.push({ severity: "warning", code: "format/aero.page-shard", message, at, name: chunk.name });
      }
      context.count("pages", pages.pageCount);
      return pages;
    } catch (error) {
      // Damage to the chunk itself was reported with the metadata.
      if (isTareError(error) && error.code === "integrity/aero.chunk-hash") return undefined;
      this.#report(error);
      return undefined;
    }
  }

  #pageCheck(pages: PageHashes, index: number): Check {
    const { chunk, model } = this.#task;
    const { label } = model.content.source;
    const start = chunk.offset + index * pages.pageBytes;
    const byteLength = Math.min(pages.pageBytes, chunk.offset + chunk.byteLength - start);
    return {
      offset: start,
      byteLength,
      compare: (found) => {
        const wanted = pages.digests.subarray(index * HASH_BYTES, (index + 1) * HASH_BYTES);
        if (equalBytes(wanted, found) || ++this.#badPages > MAX_PAGE_FINDINGS) return [];
        const names = namesIn(model.tensors, start, byteLength);
        const error = pageError({ shard: chunk.name, label, index, start, byteLength, names, wanted, found });
        return [{ ...findingFromError(error), name: chunk.name }];
      },
    };
  }

  #tellMorePages(): void {
    const { chunk, model } = this.#task;
    const more = this.#badPages - MAX_PAGE_FINDINGS;
    if (more <= 0) return;
    const message = `${more} more pages of "${chunk.name}" are damaged`;
    const at = chunkAt(model.content.source.label, chunk);
    this.#findings.push({ severity: "error", code: "integrity/aero.page-hash", message, at, name: chunk.name });
  }

  /** Only the first chunk of a name has tensors and pages; a hidden one is compared only with its own digest. */
  #shard(): Shard | undefined {
    const { chunk, model } = this.#task;
    const { shards } = model.content;
    if (shards.weights.get(chunk.name) !== chunk || !shards.pages.has(pageHashName(chunk.name))) return undefined;
    return shards.named(chunk.name);
  }

  /** Tied tensors are hashed once. */
  #tensorChecks(): Check[] {
    const { tensors, context, chunk } = this.#task;
    const byExtent = new Map<string, TensorHash[]>();
    for (const row of tensors) {
      const key = `${row.tensor.offset} ${row.byteLength}`;
      const rows = byExtent.get(key);
      if (rows === undefined) byExtent.set(key, [row]);
      else rows.push(row);
    }
    const groups = [...byExtent.values()];
    const total = groups.reduce((sum, [row]) => sum + (row?.byteLength ?? 0), 0);
    if (total > MAX_SHARING * chunk.byteLength) {
      this.#findings.push(findingFromError(this.#tooMuch(total)));
      return [];
    }
    if (tensors.length > 0) context.count("tensorHashes", tensors.length);
    return groups.map((rows) => this.#tensorCheck(rows));
  }

  /** Tensors that share an extent are hashed once, and compared with every digest that they claim. */
  #tensorCheck(rows: readonly TensorHash[]): Check {
    const { label } = this.#task.model.content.source;
    const [{ tensor, byteLength }] = rows as readonly [TensorHash];
    const { offset } = tensor;
    const firsts = new Map<string, string>();
    for (const row of rows) if (!firsts.has(row.hash)) firsts.set(row.hash, row.tensor.name);
    return {
      offset,
      byteLength,
      compare: (found) => {
        const hex = encodeHex(found);
        firsts.delete(hex);
        return [...firsts].map(([hash, name]) => {
          return { ...findingFromError(tensorError({ name, label, offset, byteLength, hash }, hex)), name };
        });
      },
    };
  }

  #tooMuch(total: number): LimitError {
    const { chunk, model } = this.#task;
    const message = `Cannot hash the tensors of ${chunkTitle(chunk)}: they must have <= ${MAX_SHARING} times its ${chunk.byteLength} bytes, found ${total}`;
    return new LimitError("limit/aero.hash-work", message, chunkAt(model.content.source.label, chunk));
  }

  #report(error: unknown): void {
    if (!isTareError(error) || error.code.startsWith("source/")) throw error;
    this.#findings.push({ ...findingFromError(error), name: this.#task.chunk.name });
  }
}

/** Cuts the items without holding more than one slice at a time. */
function* slices<T>(items: Iterable<T>, length: number): Generator<T[]> {
  let slice: T[] = [];
  for (const item of items) {
    slice.push(item);
    if (slice.length < length) continue;
    yield slice;
    slice = [];
  }
  if (slice.length > 0) yield slice;
}
