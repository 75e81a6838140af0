import type { Bytes } from "../../../base/bytes.ts";
import { isTareError, type Location } from "../../../base/errors.ts";
import { type Extent, findGaps } from "../../../bytes/extents.ts";
import { withHead } from "../../../bytes/layers/opening-read.ts";
import type { Source } from "../../../bytes/source.ts";
import type { Finding, Loss } from "../../../model/finding.ts";
import { FOURCC } from "../layout.ts";
import type { Shard } from "../weights/shards.ts";
import { type ChunkContext, readChunk } from "./chunk.ts";
import type { Control } from "./control.ts";
import { decodeIhsh } from "./digests.ts";
import { FurtherKeys } from "./further-keys.ts";
import { chunkAt } from "./toc.ts";

/** The file whose surplus is looked for. */
export interface SurplusPlace {
  readonly source: Source;
  readonly control: Control;
  /** The shard of each tensor. */
  readonly shards: readonly Shard[];
  readonly context: ChunkContext;
}

/**
 * What the string table and the chunks of digests hold besides what readers need of them. A new file has a new table and
 * new digests, so all of it would be lost. Opening reads none of it; a conversion does.
 */
export async function findSurplus(place: SurplusPlace): Promise<Loss[]> {
  const further = new FurtherKeys();
  const runs = await surplusRuns(place, further);
  for (const shard of new Set(place.shards)) await notePageKeys(shard, place, further);
  return [...further.losses(), ...runs.map(({ reason, at }) => ({ name: titleOf(at), reason, at }))];
}

/** Bytes that the specification has no place for: names lie in the string table, one value in IHSH. */
export async function surplusFindings(place: SurplusPlace): Promise<Finding[]> {
  const runs = await surplusRuns(place, new FurtherKeys());
  return runs.map(({ reason, at }) => {
    const message = `${titleOf(at)}: ${reason}`;
    return { severity: "warning", code: "format/aero.surplus", message, at };
  });
}

interface SurplusRun {
  readonly reason: string;
  readonly at: Location & { readonly offset: number; readonly byteLength: number };
}

function titleOf({ offset, byteLength }: SurplusRun["at"]): string {
  return `${byteLength} ${byteLength === 1 ? "byte" : "bytes"} from ${offset}`;
}

async function surplusRuns(place: SurplusPlace, further: FurtherKeys): Promise<SurplusRun[]> {
  return [...(await tableSurplus(place)), ...(await controlSurplus(place, further))];
}

/** Most runs that are listed; further ones repeat the story. */
const MAX_RUNS = 20;

/** Bytes of the string table that are in no chunk's name. The NULs after names are no surplus. */
async function tableSurplus({ source, control, context }: SurplusPlace): Promise<SurplusRun[]> {
  const { stringTableOffset, stringTableLength } = control.header;
  if (stringTableLength === 0) return [];
  const { signal } = context;
  const table = await withHead(source, control.opening).read(stringTableOffset, stringTableLength, { signal });
  return findGaps(control.toc.nameExtents(), stringTableLength)
    .flatMap((gap) => filledIn(table, gap))
    .slice(0, MAX_RUNS)
    .map(({ offset, byteLength }) => {
      const at = { source: source.label, offset: stringTableOffset + offset, byteLength, path: "string_table" };
      return { reason: "they lie in the string table, and no chunk has them as its name", at };
    });
}

/** Bytes after the value of IHSH, and its further keys. The reference fills the chunk with zeros. */
async function controlSurplus({ source, control, context }: SurplusPlace, further: FurtherKeys): Promise<SurplusRun[]> {
  const chunk = control.toc.first(FOURCC.control);
  if (chunk === undefined) return [];
  try {
    const content = await readChunk(source, chunk, context);
    const { valueBytes } = decodeIhsh(content, { label: source.label, offset: chunk.offset }, further);
    const rest = { offset: valueBytes, byteLength: content.byteLength - valueBytes };
    return filledIn(content, rest).map(({ offset, byteLength }) => {
      const at = { ...chunkAt(source.label, chunk, "ihsh"), offset: chunk.offset + offset, byteLength };
      return { reason: "they lie after the value of IHSH", at };
    });
  } catch (error) {
    return passDamage(error);
  }
}

async function notePageKeys(shard: Shard, { context }: SurplusPlace, further: FurtherKeys): Promise<void> {
  try {
    const pages = await shard.readPages(context.signal);
    for (const key of pages?.furtherKeys ?? []) further.unplaced(`PHSH.${key}`);
    if (pages?.shardName !== undefined && pages.shardName !== shard.name) further.misstated("PHSH.shard_name");
  } catch (error) {
    passDamage(error);
  }
}

/** Damage of digests is told where they are compared. */
function passDamage(error: unknown): [] {
  if (isTareError(error) && !error.code.startsWith("source/")) return [];
  throw error;
}

/** The run without the zeros at its ends; empty if it is all zeros. */
function filledIn(bytes: Bytes, { offset, byteLength }: Extent): Extent[] {
  let start = offset;
  let end = offset + byteLength;
  while (start < end && bytes[start] === 0) start++;
  while (end > start && bytes[end - 1] === 0) end--;
  return start === end ? [] : [{ offset: start, byteLength: end - start }];
}
