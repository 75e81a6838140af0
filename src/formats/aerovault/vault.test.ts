import { expect, test } from "vitest";
import { type ChunkRecord, entryList, type Manifest, type ManifestEntry } from "./manifest/records.ts";
import { measureEntries, vaultFacts } from "./vault.ts";
import { PROFILES, profileOf, profileSettings } from "./write/profiles.ts";

const entry = (path: string, chunks: readonly string[], more: Partial<ManifestEntry> = {}): ManifestEntry =>
  ({ path, isDir: false, size: 1, chunks, ...more }) as ManifestEntry;

const chunk = (id: string, blockLen: number): readonly [string, ChunkRecord] => [
  id,
  { id, dataOffset: 0, blockLen } as ChunkRecord,
];

test("measureEntries() counts every chunk once per file, as its own or as shared with another file", () => {
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
  // Each block has an eight-byte length prefix.
  expect(measureEntries({ manifest })).toEqual([
    { ownBytes: 18, sharedBytes: 108 },
    { ownBytes: 0, sharedBytes: 108 },
    { ownBytes: 9, sharedBytes: 0 },
    undefined,
    undefined,
    { ownBytes: 0, sharedBytes: 0 },
  ]);
});

test("the profile of a vault is the one whose level it records", () => {
  const levels = PROFILES.map((profile) => profileSettings(profile).level);
  expect([...levels, undefined, 0, 10].map((level) => profileOf(level))).toEqual([
    ...PROFILES,
    "balanced",
    undefined,
    undefined,
  ]);
});

type Facts = Parameters<typeof vaultFacts>;

/** The count of files in the facts, with this many directories beside one file. */
function filesOf(directories: number): string | undefined {
  const records = Array.from({ length: directories + 1 }, (_, i) => ({ isDir: i < directories }));
  const entries = entryList(records as unknown as readonly ManifestEntry[]);
  const wrappers = { compression: {}, chunking: { algorithmId: "gear-cdc" } };
  const vault = { manifest: { wrappers, entries, chunks: new Map() }, extensions: [], keys: { lane: "plain" } };
  const storage = { logicalBytes: 0, storedBytes: 0, unusedBytes: 0, gapBytes: 0, chunkCount: 0 };
  const facts = vaultFacts(vault as unknown as Facts[0], storage as unknown as Facts[1]);
  return facts.find(([name]) => name === "files")?.[1];
}

test("one directory is counted in the singular", () => {
  expect([0, 1, 2].map(filesOf)).toEqual(["1, and 0 directories", "1, and 1 directory", "1, and 2 directories"]);
});
