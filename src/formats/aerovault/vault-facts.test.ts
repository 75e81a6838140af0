import { expect, test } from "vitest";
import { entryList } from "./entry-list.ts";
import type { ManifestEntry } from "./manifest.ts";
import { vaultFacts } from "./vault-facts.ts";

type Facts = Parameters<typeof vaultFacts>;

/** What the facts are made of, with so many directories beside one file. */
function filesOf(directories: number): string | undefined {
  const records = Array.from({ length: directories + 1 }, (_, i) => ({ isDir: i < directories }));
  const entries = entryList(records as unknown as readonly ManifestEntry[]);
  const wrappers = { compression: {}, chunking: { algorithmId: "gear-cdc" } };
  const vault = { manifest: { wrappers, entries, chunks: new Map() }, extensions: [], keys: { lane: "plain" } };
  const storage = { logicalBytes: 0, storedBytes: 0, unusedBytes: 0, chunkCount: 0 };
  const facts = vaultFacts(vault as unknown as Facts[0], storage as unknown as Facts[1]);
  return facts.find(([name]) => name === "files")?.[1];
}

test("one directory is one directory", () => {
  expect([0, 1, 2].map(filesOf)).toEqual(["1, and 0 directories", "1, and 1 directory", "1, and 2 directories"]);
});
