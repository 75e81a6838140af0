import { FormatError, type Location, UnsupportedError } from "../../../base/errors.ts";
import { checkLimit } from "../../../base/limits.ts";
import { printable } from "../../../base/text.ts";
import { FEW_STEPS, type Steps } from "../../../base/turns.ts";
import { isChunkId } from "../cipher.ts";
import type { Lane } from "../keys.ts";
import { PREFIX_BYTES } from "../layout.ts";
import type { AerovaultLimits } from "../limits.ts";
import { compareBehind, comparePaths, depthOf, findPathFault, parentOf, sharedLength } from "../paths.ts";
import {
  type ChunkRecord,
  type EntryList,
  entryList,
  type Manifest,
  type ManifestEntry,
  WRAPPER_NAMES,
  type WrapperName,
} from "./records.ts";

/** The only algorithms of v3, all of version 1; `crypt` depends on the lane. */
const ALGORITHMS: Readonly<Record<Exclude<WrapperName, "crypt">, string>> = {
  packing: "small-file-batching",
  chunking: "gear-cdc",
  chunk_id: "blake3-keyed-128",
  compression: "zstd",
  cipher_hash: "blake3-256",
};
const CRYPT_ALGORITHMS: Readonly<Record<Lane, string>> = { encrypted: "aes-256-gcm-siv", plain: "none" };
const ALGORITHM_VERSION = 1;

/** Refuses a manifest whose content cannot be returned safely; `at` is the place of the manifest. */
export function* checkManifest(manifest: Manifest, lane: Lane, limits: PathLimits, at: Location): Steps<void> {
  checkWrappers(manifest, lane, at);
  yield* checkPathSizes(manifest.entries, limits, at);
  yield* checkPaths(manifest.entries, at);
  yield* checkRecords(manifest.chunks, at);
}

/** Readers dispatch on ids and versions: unknown ones are refused, never decoded with defaults. */
function checkWrappers({ wrappers }: Manifest, lane: Lane, at: Location): void {
  for (const name of WRAPPER_NAMES) {
    const { algorithmId, algorithmVersion } = wrappers[name];
    const known = name === "crypt" ? Object.values(CRYPT_ALGORITHMS) : [ALGORITHMS[name]];
    if (known.includes(algorithmId) && algorithmVersion === ALGORITHM_VERSION) continue;
    const found = `"${printable(algorithmId)}" version ${algorithmVersion}`;
    const message = `Cannot open AeroVault: ${name} must be ${known.map((id) => `"${id}"`).join(" or ")} version ${ALGORITHM_VERSION}, found ${found}`;
    const where = { ...at, path: `wrappers.${name}` };
    throw new UnsupportedError("unsupported/aerovault.wrapper", message, where, {
      hint: "Look for a newer version of tare",
    });
  }
  const { algorithmId } = wrappers.crypt;
  if (algorithmId === CRYPT_ALGORITHMS[lane]) return;
  const message = `Cannot open AeroVault: crypt must be "${CRYPT_ALGORITHMS[lane]}" as the header says, found "${algorithmId}"`;
  throw new FormatError("format/aerovault.lane", message, { ...at, path: "wrappers.crypt.algorithm_id" });
}

/** Limits for paths, so that checking each parent folder stays cheap. */
export type PathLimits = Pick<AerovaultLimits, "pathLength" | "pathDepth">;

function* checkPathSizes(entries: EntryList, { pathLength, pathDepth }: PathLimits, at: Location): Steps<void> {
  const place = (index: number): Location => ({ ...at, path: `entries[${index}].path` });
  for (let i = 0; i < entries.length; i++) {
    if (i % FEW_STEPS === 0) yield FEW_STEPS;
    const length = entries.pathLength(i);
    if (length > pathLength) {
      checkLimit(length, pathLength, "characters of a path", "limit/aerovault.path-length", place(i));
    }
    // A path with more components is longer than this: each has a slash and at least one other character.
    if (length < 2 * pathDepth) continue;
    const depth = depthOf(entries.path(i));
    if (depth > pathDepth) checkLimit(depth, pathDepth, "components of a path", "limit/aerovault.path-depth", place(i));
  }
}

/** One bad path refuses the whole vault: its writer cannot be trusted with the rest. */
function* checkPaths(entries: EntryList, at: Location): Steps<void> {
  const { folderStarts } = entries;
  if (folderStarts === undefined) yield* checkEachPath(entries.records(), at);
  else
    yield* checkFolders(
      entries,
      folderStarts.map((index) => entries.path(index)),
      at,
    );
}

function* checkEachPath(entries: readonly ManifestEntry[], at: Location): Steps<void> {
  let isSorted = true;
  const firsts: string[] = [];
  let before = "";
  let folderBefore = Number.NaN;
  for (let i = 0; i < entries.length; i++) {
    if (i % FEW_STEPS === 0) yield FEW_STEPS;
    const { path } = entries[i] as ManifestEntry;
    // Neighbours share most of their paths, and the shared part is checked once.
    const shared = sharedLength(before, path);
    const fault = findPathFault(path, shared);
    if (fault !== undefined) {
      const message = `Cannot accept the path "${printable(path)}" in a vault: ${fault}`;
      throw new FormatError("format/aerovault.path", message, { ...at, path: `entries[${i}].path` });
    }
    if (i > 0 && isSorted) isSorted = compareBehind(before, path, shared) < 0;
    const folder = path.lastIndexOf("/");
    if (folder !== folderBefore || folder >= shared) firsts.push(path);
    before = path;
    folderBefore = folder;
  }
  // Writers sort. A set of all paths would take longer than everything else.
  const sorted = isSorted ? entries : [...entries].sort((a, b) => comparePaths(a.path, b.path));
  if (!isSorted) checkUnique(sorted, at);
  yield* checkFolders(entryList(sorted), firsts, at);
}

function checkUnique(sorted: readonly ManifestEntry[], at: Location): void {
  for (let i = 1; i < sorted.length; i++) {
    const { path } = sorted[i] as ManifestEntry;
    if (path !== sorted[i - 1]?.path) continue;
    const message = `Cannot open AeroVault: paths must be unique, found "${printable(path)}" twice`;
    throw new FormatError("format/aerovault.duplicate-path", message, { ...at, path: `entries["${printable(path)}"]` });
  }
}

/** No path may be a file and also the folder of another entry; `paths` has at least one path of each folder. */
function* checkFolders(sorted: EntryList, paths: readonly string[], at: Location): Steps<void> {
  const known = new Set<string>();
  for (const path of paths) {
    yield;
    let folder = parentOf(path);
    for (; folder !== undefined && !known.has(folder); folder = parentOf(folder)) {
      known.add(folder);
      const found = findByPath(sorted, folder);
      if (found < 0 || sorted.isDir(found)) continue;
      const message = `Cannot open AeroVault: "${printable(folder)}" must be a folder as "${printable(path)}" is in it, found a file`;
      throw new FormatError("format/aerovault.path-conflict", message, {
        ...at,
        path: `entries["${printable(path)}"]`,
      });
    }
  }
}

/** The index of a path in a sorted list; -1 if it is not there. */
function findByPath(sorted: EntryList, path: string): number {
  let low = 0;
  let high = sorted.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    const order = comparePaths(sorted.path(middle), path);
    if (order === 0) return middle;
    if (order < 0) low = middle + 1;
    else high = middle - 1;
  }
  return -1;
}

/** Checks what the reference never compares: ids with their keys, block numbers and places with each other. */
function* checkRecords(chunks: ReadonlyMap<string, ChunkRecord>, at: Location): Steps<void> {
  const indexes = new Set<number>();
  for (const { id, innerId, blockIndex } of chunks.values()) {
    if (!isChunkId(id)) throw recordFault(id, "its id must be 32 lower-case hex digits", at);
    if (innerId !== undefined) {
      throw recordFault(id, `its id must be the key of the record, found "${printable(innerId)}"`, at);
    }
    if (indexes.has(blockIndex)) throw recordFault(id, `block_index must be its own, found ${blockIndex} twice`, at);
    indexes.add(blockIndex);
    if (indexes.size % FEW_STEPS === 0) yield FEW_STEPS;
  }
  checkOverlaps(chunks, at);
}

function recordFault(id: string, fault: string, at: Location): FormatError {
  const message = `Cannot accept the record of chunk "${printable(id)}": ${fault}`;
  return new FormatError("format/aerovault.record", message, { ...at, path: `chunks["${printable(id)}"]` });
}

/** Overlapping blocks would let a small file claim a large content. */
function checkOverlaps(chunks: ReadonlyMap<string, ChunkRecord>, at: Location): void {
  const sorted = [...chunks.values()].sort((a, b) => a.dataOffset - b.dataOffset);
  for (let i = 1; i < sorted.length; i++) {
    const before = sorted[i - 1] as ChunkRecord;
    const after = sorted[i] as ChunkRecord;
    // Compare differences: a sum of two numbers of a file may not be exact.
    if (after.dataOffset - before.dataOffset >= PREFIX_BYTES + before.blockLen) continue;
    const message = `Cannot accept overlapping blocks: chunk ${before.id} has ${PREFIX_BYTES + before.blockLen} bytes at ${before.dataOffset}, chunk ${after.id} begins at ${after.dataOffset}`;
    throw new FormatError("format/aerovault.overlap", message, { ...at, path: `chunks["${after.id}"].data_offset` });
  }
}
