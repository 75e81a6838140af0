import { type Bytes, EMPTY_BYTES } from "../../../base/bytes.ts";
import { UnsupportedError } from "../../../base/errors.ts";
import { type AssembledPart, assembledSource } from "../../../bytes/assembled.ts";
import type { Extent } from "../../../bytes/extents.ts";
import type { Sink } from "../../../bytes/sink.ts";
import type { WriteContext } from "../../../model/format.ts";
import { type Piece, writePieces } from "../../../model/pieces.ts";
import type { Engine, Hasher } from "../../../primitives/engine.ts";
import type { AeroImage } from "../plan.ts";

/** BLAKE3-256 of everything in the shards that the file has a digest for. */
export interface WrittenDigests {
  /** By the shard's number. */
  readonly shards: ReadonlyMap<number, ShardDigests>;
  /** In the order of the rows; undefined if they are not wanted, or if one is not known. */
  readonly tensors: readonly (Bytes | undefined)[] | undefined;
}

interface ShardDigests {
  readonly whole: Bytes;
  readonly pages: readonly Bytes[];
}

/** Appends the shards at their places and hashes the bytes on the way. The sink is before the first shard. */
export async function writeShards(
  image: AeroImage,
  sink: SeekableSink,
  context: WriteContext,
): Promise<WrittenDigests> {
  const places = image.layout.chunks.filter(({ role }) => role === "weights");
  const shards = new Map<number, ShardDigests>();
  const tensors: Bytes[] = [];
  let first = 0;
  for (const [id, shard] of image.shards.entries()) {
    sink.reserve((places[id]?.offset ?? 0) - sink.position);
    const rows = { start: first, end: first + shard.tensorCount };
    first = rows.end;
    const digests = await writeShard(image, { id, rows }, { sink, context });
    shards.set(image.shardIds[id] ?? id, digests);
    for (const digest of digests.tensors) tensors.push(digest);
  }
  return { shards, tensors: image.tensorHashes === undefined ? undefined : tensors };
}

interface ShardRows {
  readonly id: number;
  /** The rows of the index that are in the shard. */
  readonly rows: { readonly start: number; readonly end: number };
}

async function writeShard(
  image: AeroImage,
  { id, rows }: ShardRows,
  { sink, context }: { readonly sink: SeekableSink; readonly context: WriteContext },
): Promise<ShardDigests & { readonly tensors: readonly Bytes[] }> {
  const byteLength = image.shards[id]?.byteLength ?? 0;
  const { engine } = context;
  const pieces = shardPieces(image, rows);
  const pageRuns = image.pageBytes === undefined ? [] : [...pageExtents(byteLength, image.pageBytes)];
  const tensorRuns = image.tensorHashes === undefined ? [] : [...tensorExtents(image, rows)];
  const aside = new AsideHashes(pieces, [...pageRuns, ...tensorRuns], context);
  const whole = new RunDigests(engine, [{ offset: 0, byteLength }]);
  const isAside = aside.digests !== undefined;
  const pages = new RunDigests(engine, isAside ? [] : pageRuns);
  const tensors = new RunDigests(engine, isAside ? [] : tensorRuns);
  const hashing = new HashingSink(sink, [whole, pages, tensors]);
  try {
    await writePieces(pieces, hashing, context);
    await hashing.settled();
    const [digest] = await whole.finish();
    const made = await aside.digests;
    return {
      whole: digest as Bytes,
      pages: made?.slice(0, pageRuns.length) ?? (await pages.finish()),
      tensors: made?.slice(pageRuns.length) ?? (await tensors.finish()),
    };
  } finally {
    aside.stop();
  }
}

/** Digests of pages and tensors that a worker computes while the bytes are copied, if possible. */
class AsideHashes {
  /** Undefined if they are computed inline, or not wanted. */
  readonly digests: Promise<readonly Bytes[]> | undefined;
  readonly #stopping = new AbortController();

  constructor(pieces: readonly Piece[], runs: readonly Extent[], context: WriteContext) {
    if (runs.length === 0 || !canHashAside(pieces)) return;
    const signals = context.signal === undefined ? [] : [context.signal];
    const signal = AbortSignal.any([...signals, this.#stopping.signal]);
    this.digests = hashAside(pieces, runs, { engine: context.engine, signal });
    this.digests.catch(() => undefined); // the caller that awaits it sees the error; after a failed copy there is none
  }

  /** Does nothing if they are done. */
  stop(): void {
    this.#stopping.abort();
  }
}

function* tensorExtents(image: AeroImage, { start, end }: ShardRows["rows"]): Generator<Extent> {
  for (const { dataOff, dataLen } of image.rows.slice(start, end)) yield { offset: dataOff, byteLength: dataLen };
}

/** The tensors with the zeros between them. */
function shardPieces(image: AeroImage, { start, end }: ShardRows["rows"]): Piece[] {
  const pieces: Piece[] = [];
  let position = 0;
  for (let i = start; i < end; i++) {
    const tensor = image.tensors[i];
    const row = image.rows[i];
    if (tensor === undefined || row === undefined || row.dataLen === 0) continue;
    if (row.dataOff > position) pieces.push({ kind: "zeros", byteLength: row.dataOff - position });
    pieces.push({ kind: "tensor", tensor });
    position = row.dataOff + row.dataLen;
  }
  return pieces;
}

/** Every digest uses a block while it is in the core's second-level cache. */
const BLOCK_BYTES = 256 << 10;
/** Shorter appends are gathered into blocks: 100 000 tensors of 70 bytes take a few writes. */
const SMALL_BYTES = 64 << 10;
/** Blocks kept for reuse. */
const KEPT_BLOCKS = 4;

const DONE: Promise<void> = Promise.resolve();

/**
 * A Sink that hashes bytes on the way to another one: every byte is read once, and the hashed bytes are those that were
 * written. Hashing runs on the calling thread while the system's threads read and write.
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
  /** The last flush; it fails if anything before it failed. */
  #flushed: Promise<void> = DONE;

  constructor(sink: Sink, digests: readonly RunDigests[]) {
    this.label = sink.label;
    this.#sink = sink;
    this.#digests = digests;
  }

  get position(): number {
    return this.#sink.position + this.#gathered;
  }

  /** Copies small appends, and waits only when a block is full: that bounds the gathered bytes. */
  append(bytes: Bytes): Promise<void> {
    if (bytes.byteLength < SMALL_BYTES) return this.#gather(bytes);
    this.#flush();
    return this.#pass(bytes);
  }

  /** Resolves when all appended bytes are hashed and handed on. */
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
    this.#flushed.catch(() => undefined); // reported by `settled`, and by the append that fills the next block
  }

  /** Blocks are hashed in the order of the appends; a failure makes every later one fail. */
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

/** Below this, starting a worker costs more than the copying thread saves. */
const MIN_BYTES = 64 << 20;

/**
 * True if a worker can hash these tensors from their own files while they are copied. The bytes are the same and in the
 * page cache, so one core hashes pages and tensors while another hashes whole shards. Sources that only this thread
 * has, such as a URL or a cast, are never read twice.
 */
export function canHashAside(pieces: readonly Piece[]): boolean {
  let byteLength = 0;
  for (const piece of pieces) {
    if (piece.kind !== "tensor") continue;
    if (piece.tensor.source().descriptor === undefined) return false;
    byteLength += piece.tensor.byteLength;
  }
  return byteLength >= MIN_BYTES;
}

/** BLAKE3-256 of runs of the shard that the pieces form, in the order of the runs. */
export function hashAside(
  pieces: readonly Piece[],
  runs: readonly Extent[],
  { engine, signal }: Pick<WriteContext, "engine" | "signal">,
): Promise<readonly Bytes[]> {
  const parts = pieces.map((piece): AssembledPart => {
    if (piece.kind === "zeros") return { zeros: piece.byteLength };
    if (piece.kind === "bytes") throw new Error("a shard holds tensors and zeros only");
    return { source: piece.tensor.source(), offset: 0, byteLength: piece.tensor.byteLength };
  });
  return engine.digestExtents("blake3", assembledSource(parts, "shard"), runs, { signal });
}

/** The pages of a shard (AIP-0002), from its start; the last one may be short. */
export function* pageExtents(shardBytes: number, pageBytes: number): Generator<Extent> {
  for (let offset = 0; offset < shardBytes; offset += pageBytes) {
    yield { offset, byteLength: Math.min(pageBytes, shardBytes - offset) };
  }
}

/**
 * BLAKE3-256 of consecutive runs of a byte stream. Runs come in order and do not overlap; bytes between them belong to
 * none. An empty run has the digest of no bytes.
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

  /** Takes the bytes at `position` of the stream; calls follow each other without a gap. */
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

  /** The digests in the order of the runs, once all bytes are fed. */
  async finish(): Promise<readonly Bytes[]> {
    await this.feed(EMPTY_BYTES, Number.MAX_SAFE_INTEGER);
    if (this.#run !== undefined) throw new Error(`no bytes came for the run at ${this.#run.offset}`);
    return this.#digests;
  }

  /** Adds a part of the run; a part that is the whole run needs no hasher. */
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

/** A Sink that can go back. AERO needs it because digests of the weights come before the weights. */
export type SeekableSink = Sink & Required<Pick<Sink, "reserve" | "fill">>;

/** Refuses a Sink that cannot go back. */
export function checkSeekable(sink: Sink): SeekableSink {
  if (sink.reserve !== undefined && sink.fill !== undefined) return sink as SeekableSink;
  const message = "Cannot write AERO to an output that cannot go back: digests of the weights come before them";
  throw new UnsupportedError("unsupported/aero.sequential-output", message, { source: sink.label });
}
