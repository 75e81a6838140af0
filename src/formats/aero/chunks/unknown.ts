import { printable } from "../../../base/text.ts";
import type { Source } from "../../../bytes/source.ts";
import type { Loss } from "../../../model/finding.ts";
import type { Beside } from "../../../model/model.ts";
import { CHUNK_FLAGS, FOURCC } from "../layout.ts";
import type { AeroLimits } from "../limits.ts";
import type { ManifestRow } from "./manifest-rows.ts";
import { type Chunk, chunkTitle, isCompressed, type Toc } from "./toc.ts";

/** A chunk of a type that the specification does not name; it is written again unchanged. */
export interface CarriedChunk {
  readonly chunk: Chunk;
  /** What the manifest says about it, if it lists it. */
  readonly row: ManifestRow | undefined;
}

/** Where the tensors of a file are in its shards, and how long the shards are: an unknown chunk may depend on these. */
export interface Places {
  readonly tensors: readonly Place[];
  /** Bytes of each shard, by its number. */
  readonly shards: ReadonlyMap<number, number>;
}

interface Place {
  readonly name: string;
  readonly shardId: number;
  readonly dataOff: number;
  readonly dataLen: number;
}

/** The file that chunks are carried from. */
interface CarriedFrom {
  readonly source: Source;
  readonly toc: Toc;
  readonly limits: AeroLimits;
  /** Called only by a write. */
  readonly places: () => Places;
}

/** The chunks of one file that another AERO file can contain unchanged. */
export class CarriedChunks implements Beside {
  readonly format = "aero";
  readonly losses: readonly Loss[];
  readonly chunks: readonly CarriedChunk[];
  readonly from: CarriedFrom;

  constructor(chunks: readonly CarriedChunk[], from: CarriedFrom) {
    this.chunks = chunks;
    this.from = from;
    this.losses = listed(chunks.map(({ chunk }) => ({ name: chunkTitle(chunk), reason: UNNAMED_TYPE })));
  }

  /**
   * True if every shard stays what it was, byte for byte. We do not know what the chunks refer to; then names, numbers
   * and digests of shards, and places in them, are still right. Readers depend neither on the order of chunks nor on
   * their place in the file (docs/formats/aero.md#writing).
   */
  fits({ tensors, shards }: Places): boolean {
    const before = this.from.places();
    if (before.tensors.length !== tensors.length || before.shards.size !== shards.size) return false;
    if (![...before.shards].every(([id, byteLength]) => shards.get(id) === byteLength)) return false;
    return before.tensors.every((was, i) => {
      const is = tensors[i];
      if (was.name !== is?.name || was.shardId !== is.shardId || was.dataLen !== is.dataLen) return false;
      return was.dataLen === 0 || was.dataOff === is.dataOff;
    });
  }
}

const UNNAMED_TYPE =
  "a chunk of a type that the specification does not name; only an AERO file with the same tensors in the same places carries it";

const KNOWN_FLAGS = Object.values(CHUNK_FLAGS).reduce((all, flag) => all | flag, 0);
const KNOWN_TYPES: readonly string[] = Object.values(FOURCC);

export function isKnownType({ fourcc }: Chunk): boolean {
  return KNOWN_TYPES.includes(fourcc);
}

export function hasKnownFlags({ flags }: Chunk): boolean {
  return (flags & ~KNOWN_FLAGS) === 0;
}

/** What happens to chunks that the specification does not name, and to the manifest's rows about them. */
interface SortedChunks {
  readonly carried: readonly CarriedChunk[];
  /** Chunks, and roles of chunks, that a new file would not have. */
  readonly losses: readonly Loss[];
}

export function sortUnknownChunks(toc: Toc, rows: readonly ManifestRow[], limits: AeroLimits): SortedChunks {
  const carried: CarriedChunk[] = [];
  const losses: Loss[] = [];
  const strays = new Set(rows);
  const byIndex = new Map(rows.map((row) => [row.tocIndex, row]));
  const titles = new Set<string>();
  for (const chunk of toc.chunks) {
    if (isKnownType(chunk)) continue;
    const listedAs = byIndex.get(chunk.index);
    const row = listedAs?.fourcc === chunk.fourcc ? listedAs : undefined;
    if (row !== undefined) strays.delete(row);
    const title = `${chunk.fourcc}${chunk.name}`;
    const reason = titles.has(title) ? "an earlier chunk of the same kind hides it" : findObstacle(chunk, limits);
    titles.add(title);
    if (reason === undefined) carried.push({ chunk, row });
    else losses.push({ name: chunkTitle(chunk), reason });
  }
  for (const { role } of strays) {
    const reason = "no chunk that is written has this role";
    losses.push({ name: `MMSG.chunks[].role "${printable(role)}"`, reason });
  }
  return { carried, losses };
}

/**
 * Why a chunk is not carried. Only optional chunks are carried ("readers may skip", spec, "Chunk Flags"). A required
 * chunk may demand anything of the rest of the file, and without understanding it we cannot meet that.
 */
function findObstacle(chunk: Chunk, { verifyBytes }: AeroLimits): string | undefined {
  const { fourcc, flags, byteLength, ulen } = chunk;
  const unnamed = "a chunk of a type that the specification does not name";
  if ((flags & CHUNK_FLAGS.CHUNK_IS_OPTIONAL) === 0) return `${unnamed}, and that is not marked as optional`;
  if (!hasKnownFlags(chunk)) return `${unnamed}, with flags that it does not name either`;
  // The TOC's four letters are written as ASCII.
  if ([...fourcc].some((letter) => letter.charCodeAt(0) > 0x7f)) return `${unnamed}, not even by its letters`;
  if (!isCompressed(chunk)) return ulen === byteLength ? undefined : `${unnamed}, whose two lengths differ`;
  // Its digest covers the decompressed content, which is held in memory.
  return Math.max(ulen, byteLength) <= verifyBytes ? undefined : `${unnamed}, too long to be decompressed and checked`;
}

/** Further ones are only counted: a file may have a million chunks. */
const MAX_LISTED = 100;

export function listed(losses: Iterable<Loss>): Loss[] {
  const first: Loss[] = [];
  let more = 0;
  for (const loss of losses) {
    if (first.length < MAX_LISTED) first.push(loss);
    else more++;
  }
  return more === 0 ? first : [...first, { name: `${more} more chunks`, reason: "as the ones before" }];
}
