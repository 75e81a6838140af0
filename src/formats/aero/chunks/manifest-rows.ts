import { FOURCC } from "../layout.ts";
import type { Shard } from "../weights/shards.ts";
import type { FurtherKeys } from "./further-keys.ts";
import type { Toc } from "./toc.ts";

/** What the manifest says about a chunk. */
export interface ManifestRow {
  /** Empty if the row does not say it. */
  readonly fourcc: string;
  readonly role: string;
  readonly tocIndex: number | undefined;
  readonly shardId: number | undefined;
}

/** What a row of the manifest's `shards` says. */
export interface ShardRow {
  shard_id?: number;
  toc_index?: number;
  size_bytes?: number;
  tensor_count?: number;
}

/** The numbers of a row about a shard (docs/formats/aero.md#mmsg). */
export const SHARD_NUMBERS = ["shard_id", "toc_index", "size_bytes", "tensor_count"] as const;

/** Rows about what the tables list too. A new manifest has rows that are made of the tables. */
export interface StatedRows {
  readonly chunks: ManifestRow[];
  readonly shards: ShardRow[];
}

interface Tables {
  readonly toc: Toc;
  /** The shard of each tensor. */
  readonly shards: readonly Shard[];
}

/** Tells which rows say something else than the tables: rewriting the file would replace what they say. */
export function tellMisstated({ chunks, shards }: StatedRows, { toc, ...index }: Tables, further: FurtherKeys): void {
  const counts = new Map<Shard, number>();
  for (const shard of index.shards) counts.set(shard, (counts.get(shard) ?? 0) + 1);
  const byId = new Map([...counts.keys()].map((shard) => [shard.id, shard]));
  const owners = new Map(
    [...byId.values()].flatMap(({ id, chunk, pages }) => {
      return [chunk, pages].flatMap((owned) => (owned === undefined ? [] : [[owned.index, id] as const]));
    }),
  );
  for (const { fourcc, tocIndex, shardId } of chunks) {
    const owner = tocIndex === undefined ? undefined : owners.get(tocIndex);
    // A shard that no tensor uses is told by itself.
    const isOfShards = owner === undefined && (fourcc === FOURCC.weights || fourcc === FOURCC.pages);
    if (shardId !== undefined && shardId !== owner && !isOfShards) further.misstated("MMSG.chunks[].shard_id");
    if (tocIndex === undefined || fourcc === "" || toc.chunks[tocIndex]?.fourcc === fourcc) continue;
    further.misstated("MMSG.chunks[].toc_index");
  }
  for (const row of shards) {
    const shard = byId.get(row.shard_id ?? -1);
    const chunk = shard?.chunk;
    if (shard === undefined || chunk === undefined) {
      // Without such a shard there is nothing to compare with. Its chunk, if there is one, is told by itself.
      const isOther = row.toc_index !== undefined && owners.has(row.toc_index);
      if (row.shard_id !== undefined && isOther) further.misstated("MMSG.shards[].shard_id");
      continue;
    }
    const right: Required<ShardRow> = {
      shard_id: shard.id,
      toc_index: chunk.index,
      size_bytes: chunk.ulen,
      tensor_count: counts.get(shard) ?? 0,
    };
    for (const key of SHARD_NUMBERS) {
      if (row[key] !== undefined && row[key] !== right[key]) further.misstated(`MMSG.shards[].${key}`);
    }
  }
}
