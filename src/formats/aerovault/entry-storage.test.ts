import { expect, test } from "vitest";
import { entryList } from "./entry-list.ts";
import { measureEntries } from "./entry-storage.ts";
import type { ChunkRecord, Manifest, ManifestEntry } from "./manifest.ts";

const entry = (path: string, chunks: readonly string[], more: Partial<ManifestEntry> = {}): ManifestEntry =>
  ({ path, isDir: false, size: 1, chunks, ...more }) as ManifestEntry;

const chunk = (id: string, blockLen: number): readonly [string, ChunkRecord] => [
  id,
  { id, dataOffset: 0, blockLen } as ChunkRecord,
];

test("measureEntries() counts every chunk once for each file, and tells whether another file has it too", () => {
  const manifest = {
    entries: entryList([
      entry("a", ["x", "y", "y"]),
      entry("b", ["x"]),
      entry("zeros", ["z", "z", "z"]),
      entry("small", ["p"], { packOffset: 10 }),
      entry("dir", [], { isDir: true }),
      entry("lost", ["none"]),
    ]),
    chunks: new Map([chunk("x", 100), chunk("y", 10), chunk("z", 1), chunk("p", 5)]),
  } as unknown as Manifest;
  // Each block has eight bytes of length in front.
  expect(measureEntries({ manifest })).toEqual([
    { ownBytes: 18, sharedBytes: 108 },
    { ownBytes: 0, sharedBytes: 108 },
    { ownBytes: 9, sharedBytes: 0 },
    undefined,
    undefined,
    { ownBytes: 0, sharedBytes: 0 },
  ]);
});
