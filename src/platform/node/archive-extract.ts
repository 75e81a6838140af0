import type { Entry } from "../../model/archive.ts";
import { ExtractPlaces, type Place, type PlacedFacts, type PlacesOptions } from "./extract-places.ts";
import type { ExtractReport } from "./vault-extract.ts";
import { hasDescriptorPaths } from "./vault-folders.ts";
import { stageExtraction } from "./vault-staging.ts";
import { CreatedFile } from "./vault-target.ts";

export interface ArchiveExtractOptions extends PlacesOptions {
  readonly onProgress?: ((byteLength: number) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Writes entries of any archive below a folder, one after the other, with the care of `extractEntries`: every name is checked
 * before the first write, no file is visible before it is complete, and a file that fails leaves nothing.
 */
export async function extractArchiveEntries(
  entries: readonly Entry[],
  options: ArchiveExtractOptions,
): Promise<ExtractReport> {
  if (hasDescriptorPaths()) return extractAll(entries, options);
  return stageExtraction(options, (staged) => extractAll(entries, staged));
}

async function extractAll(entries: readonly Entry[], options: ArchiveExtractOptions): Promise<ExtractReport> {
  const places = new ExtractPlaces(options);
  const directories = entries.filter(({ type }) => type === "directory");
  try {
    const files = entries.filter(({ type }) => type === "file");
    const reserved = places.prepare(() => {
      for (const { path } of directories) places.makeFolder(path);
      const placed = files.map((entry) => ({ entry, place: places.reserve(entry.path) }));
      places.checkApart(
        files.map(({ path }) => path),
        directories.map(({ path }) => path),
      );
      return placed;
    });
    for (const { entry, place } of reserved) await extractFile(entry, place, places, options);
    await places.syncFiles(reserved.map(({ place }) => place));
    places.finish(directories.map(factsOf));
    const byteLength = files.reduce((sum, { size }) => sum + size, 0);
    return { files: files.length, directories: directories.length, byteLength };
  } catch (error) {
    places.abandon(directories.map(factsOf));
    throw error;
  } finally {
    places.close();
  }
}

async function extractFile(
  entry: Entry,
  place: Place,
  places: ExtractPlaces,
  { signal, onProgress }: ArchiveExtractOptions,
): Promise<void> {
  const source = entry.source();
  const folder = places.folders.acquire(place.folder);
  try {
    const file = new CreatedFile(places.target(factsOf(entry), place, folder));
    try {
      let at = 0;
      for await (const piece of source.stream(0, { signal })) {
        file.write(piece, at);
        at += piece.byteLength;
        onProgress?.(piece.byteLength);
      }
      file.finish();
    } catch (error) {
      file.abort();
      throw error;
    }
  } finally {
    places.folders.release(place.folder);
    await source.close();
  }
}

function factsOf({ path, mode, modified }: Entry): PlacedFacts {
  return { path, mode, mtime: modified === undefined ? undefined : modified / 1000 };
}
