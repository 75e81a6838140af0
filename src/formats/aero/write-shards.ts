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

/** Digests of pages and tensors that a worker makes beside the copy, where it can. */
class AsideHashes {
  /** Undefined where they are made inline, or not wanted. */
  readonly digests: Promise<readonly Bytes[]> | undefined;
  readonly #stopping = new AbortController();

  constructor(pieces: readonly Piece[], runs: readonly Extent[], context: WriteContext) {
    if (runs.length === 0 || !canHashAside(pieces)) return;
    const signals = context.signal === undefined ? [] : [context.signal];
    const signal = AbortSignal.any([...signals, this.#stopping.signal]);
    this.digests = hashAside(pieces, runs, { engine: context.engine, signal });
    this.digests.catch(() => undefined); // whoever awaits it sees it; a failed copy does not
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
