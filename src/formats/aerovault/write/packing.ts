import { comparePaths } from "../paths.ts";

/** Files below this share packs; the constant of the format, whatever the chunker's minimum (dossier T4). */
export const SMALL_FILE_BYTES = 256 << 10;
/** A pack that has grown to this is flushed (dossier 4.1). */
export const PACK_BYTES = 4 << 20;

/** A file that goes into a pack. */
export interface PackMember {
  readonly path: string;
  readonly size: number;
}

/** Files whose bytes stand one behind the other, without any framing. */
export interface Pack<M extends PackMember> {
  readonly members: readonly M[];
  readonly byteLength: number;
}

/** True for files that are packed. */
export function isSmall(size: number): boolean {
  return size < SMALL_FILE_BYTES;
}

/** Small files in the order of their paths, cut into packs after the file that fills one (dossier 4.1). */
export function planPacks<M extends PackMember>(files: readonly M[]): Pack<M>[] {
  const packs: Pack<M>[] = [];
  let members: M[] = [];
  let byteLength = 0;
  for (const file of [...files].sort((a, b) => comparePaths(a.path, b.path))) {
    members.push(file);
    byteLength += file.size;
    if (byteLength < PACK_BYTES) continue;
    packs.push({ members, byteLength });
    members = [];
    byteLength = 0;
  }
  if (members.length > 0) packs.push({ members, byteLength });
  return packs;
}

/** Where a packed file is: which chunks of its pack, and where in the first of them it begins. */
export interface Cover {
  /** Index of the first covering chunk; 0 for an empty file, which has none. */
  readonly first: number;
  readonly count: number;
  readonly packOffset: number;
}

/** The chunks that cover each run of a pack. `sizes` and `chunkLengths` have the same sum. */
export function coverSpans(sizes: readonly number[], chunkLengths: readonly number[]): Cover[] {
  let chunk = 0;
  let chunkStart = 0;
  let start = 0;
  return sizes.map((size) => {
    if (size === 0) return { first: 0, count: 0, packOffset: 0 };
    while (chunkStart + (chunkLengths[chunk] as number) <= start) chunkStart += chunkLengths[chunk++] as number;
    const first = chunk;
    const packOffset = start - chunkStart;
    const end = start + size;
    let last = chunk;
    let lastEnd = chunkStart + (chunkLengths[chunk] as number);
    while (lastEnd < end) lastEnd += chunkLengths[++last] as number;
    start = end;
    return { first, count: last - first + 1, packOffset };
  });
}
