import type { Loss } from "../../model/format.ts";
import type { AeroContent } from "./aero-model.ts";
import { CHUNK_FLAGS, FOURCC, fileHeader, pageHashName, tocEntry, tocHeader } from "./layout.ts";
import { packedFacts } from "./origin-facts.ts";
import { type Chunk, chunkTitle } from "./toc.ts";

/** More are told by their number: a file may have a million chunks. */
const MAX_LISTED = 100;

const KNOWN_FLAGS = Object.values(CHUNK_FLAGS).reduce((all, flag) => all | flag, 0);
const KNOWN_TYPES: readonly string[] = Object.values(FOURCC);

/**
 * What a file holds that one written anew from its tensors and metadata would not have. The specification lets readers
 * pass over all of it, so that opening is right to succeed; a conversion has to say it. Nothing is read for it: what lies
 * in gaps is looked at by `unclaimedBytes`.
 */
export function aeroLosses(
  content: AeroContent,
  keys: "keys are carried" | "keys are lost" = "keys are carried",
): Loss[] {
  const { control, further, index, unread } = content;
  const cannotBeRead = unread.map((chunk) => ({ name: chunk.name, reason: "its metadata cannot be read" }));
  return [
    ...cannotBeRead,
    ...listed(chunkLosses(content)),
    ...(keys === "keys are lost" ? further.allLosses() : further.losses()),
    ...packedFacts(index.packed).losses,
    ...(control.toc.warnings.length === 0 ? [] : [{ name: "reserved fields", reason: "they are not zero" }]),
    ...trailingLosses(content),
  ];
}

/** Chunks of types and names that nothing refers to, and flags that the specification does not name. */
function* chunkLosses({ control, shards, index }: AeroContent): Generator<Loss> {
  const used = new Set(index.shards.map(({ name }) => name));
  const uses: ChunkUses = {
    first: new Map(KNOWN_TYPES.map((fourcc) => [fourcc, control.toc.first(fourcc)])),
    shards: used,
    pages: new Set([...used].map(pageHashName)),
    hidden: new Set(shards.hidden),
  };
  for (const chunk of control.toc.chunks) {
    const reason = chunkSurplus(chunk, uses);
    if (reason !== undefined) yield { name: chunkTitle(chunk), reason };
  }
}

interface ChunkUses {
  /** The first chunk of each type. */
  readonly first: ReadonlyMap<string, Chunk | undefined>;
  /** Names of the shards that tensors lie in, and of their page hashes. */
  readonly shards: ReadonlySet<string>;
  readonly pages: ReadonlySet<string>;
  readonly hidden: ReadonlySet<Chunk>;
}

function chunkSurplus(chunk: Chunk, { first, shards, pages, hidden }: ChunkUses): string | undefined {
  const { fourcc, name, flags, byteLength } = chunk;
  if (!KNOWN_TYPES.includes(fourcc)) return "a chunk of a type that the specification does not name";
  const isShard = fourcc === FOURCC.weights;
  const isSingle = !isShard && fourcc !== FOURCC.pages;
  if (isSingle ? first.get(fourcc) !== chunk : hidden.has(chunk)) return "an earlier chunk of the same kind hides it";
  if (isShard && byteLength > 0 && !shards.has(name)) return "weights that no tensor refers to";
  if (fourcc === FOURCC.pages && !pages.has(name)) return "page hashes of weights that no tensor refers to";
  return (flags & ~KNOWN_FLAGS) === 0 ? undefined : "flags that the specification does not name";
}

function listed(losses: Iterable<Loss>): Loss[] {
  const first: Loss[] = [];
  let more = 0;
  for (const loss of losses) {
    if (first.length < MAX_LISTED) first.push(loss);
    else more++;
  }
  return more === 0 ? first : [...first, { name: `${more} more chunks`, reason: "as the ones before" }];
}

/** Writers put nothing after the last chunk, not even padding (formats/aero.md 1.1). */
function trailingLosses({ source, control }: AeroContent): Loss[] {
  const { header, toc } = control;
  const tables = [
    fileHeader.byteLength,
    header.tocOffset + tocHeader.byteLength + toc.chunks.length * tocEntry.byteLength,
    header.stringTableOffset + header.stringTableLength,
  ];
  const end = toc.chunks.reduce((last, chunk) => Math.max(last, chunk.offset + chunk.byteLength), Math.max(...tables));
  const byteLength = source.byteLength - end;
  if (byteLength <= 0) return [];
  const at = { source: source.label, offset: end, byteLength };
  return [{ name: `${byteLength} bytes from ${end}`, reason: "they lie after the last chunk", at }];
}
