import type { Bytes } from "../../base/bytes.ts";
import type { Extent } from "../../bytes/extents.ts";
import type { WriteContext } from "../../model/format.ts";
import { type Piece, writePieces } from "../../model/pieces.ts";
import { pageExtents, RunDigests } from "./hash-plan.ts";
import type { AeroImage } from "./plan.ts";
import { HashingSink } from "./write-hashing.ts";
import type { SeekableSink } from "./write-sink.ts";
import { canHashAside, hashAside } from "./write-tensor-hashes.ts";

/** BLAKE3-256 of everything in the shards that the file has a place for. */
export interface WrittenDigests {
  /** By the shard's number. */
  readonly shards: ReadonlyMap<number, ShardDigests>;
  /** In the order of the rows; undefined where they are not wanted, or where one is not known. */
  readonly tensors: readonly (Bytes | undefined)[] | undefined;
}

export interface ShardDigests {
  readonly whole: Bytes;
  readonly pages: readonly Bytes[];
}

/** Appends the shards at their places, hashing what passes. The sink stands anywhere before the first one. */
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
  /** Which rows of the index lie in the shard. */
  readonly rows: { readonly start: number; readonly end: number };
}

async function writeShard(
  image: AeroImage,
  { id, rows }: ShardRows,
  { sink, context }: { readonly sink: SeekableSink; readonly context: WriteContext },
): Promise<ShardDigests & { readonly tensors: readonly Bytes[] }> {
  const byteLength = image.shards[id]?.byteLength ?? 0;
  const { engine } = context;
  const whole = new RunDigests(engine, [{ offset: 0, byteLength }]);
  const pages = new RunDigests(engine, image.pageBytes === undefined ? [] : pageExtents(byteLength, image.pageBytes));
  const aside = new AsideHashes(image, rows, context);
  const inline = new RunDigests(engine, aside.inlineExtents());
  const hashing = new HashingSink(sink, [whole, pages, inline]);
  try {
    await writePieces(shardPieces(image, rows), hashing, context);
    await hashing.settled();
    const [digest] = await whole.finish();
    const tensors = (await aside.digests) ?? (await inline.finish());
    return { whole: digest as Bytes, pages: await pages.finish(), tensors };
  } finally {
    aside.stop();
  }
}

/** Tensor digests that a worker makes beside the copy, where it can. */
class AsideHashes {
  /** Undefined where they are made inline, or not wanted. */
  readonly digests: Promise<readonly Bytes[]> | undefined;
  readonly #image: AeroImage;
  readonly #rows: ShardRows["rows"];
  readonly #stopping = new AbortController();

  constructor(image: AeroImage, rows: ShardRows["rows"], context: WriteContext) {
    this.#image = image;
    this.#rows = rows;
    const tensors = image.tensors.slice(rows.start, rows.end);
    if (image.tensorHashes === undefined || !canHashAside(tensors)) return;
    const signals = context.signal === undefined ? [] : [context.signal];
    const signal = AbortSignal.any([...signals, this.#stopping.signal]);
    this.digests = hashAside(tensors, { engine: context.engine, signal });
    this.digests.catch(() => undefined); // whoever awaits it sees it; a failed copy does not
  }

  inlineExtents(): Iterable<Extent> {
    const wanted = this.#image.tensorHashes !== undefined && this.digests === undefined;
    return wanted ? tensorExtents(this.#image, this.#rows) : [];
  }

  /** Harmless when they are done. */
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
