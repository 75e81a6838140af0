import { readdirSync } from "node:fs";

const root = new URL("..", import.meta.url).pathname;

/** Formats by the names of their folders. */
export const FORMAT_FOLDERS: readonly string[] = readdirSync(`${root}src/formats`, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name);

/** Optional, and found when asked for. */
export const ADDONS: readonly RegExp[] = [/^@napi-rs\/blake-hash/, /^@cloudpss\/zstd/, /^@node-rs\/argon2/];

/**
 * What the bundles for Node hold together: Node takes about a millisecond for each file, whatever its length. What every
 * job needs is one file, each format is one, and the rest is split by what is loaded together. Lower layers come first: a
 * group takes what it imports along, unless an earlier one has it.
 */
const NODE_GROUPS: readonly (readonly [name: string, test: RegExp])[] = [
  [
    "core",
    /\/src\/((base|struct|bytes)\/|model\/(?!bert\/)|primitives\/(compress\/(zstd|zstd-frame|lz4)|quant\/quantizer)\.ts|formats\/(registry|foreign|\w+\/(known|sniff))\.ts)/,
  ],
  ["addons", /\/src\/platform\/node\/\w+-addon/], // the only ones that import modules: their code is not kept
  ["crypto", /\/src\/primitives\/crypto\/(?!.*(javascript|webcrypto))/],
  [
    "engine",
    /\/src\/(primitives\/(engine|table-engine|portable|range|extents|choice|digest\/(?!.*(wasm|javascript))|encoding\/)|workers\/(?!index)|platform\/node\/[a-z-]*(engine|worker(?!-entry)|file-source|file-reads))/,
  ],
  ...FORMAT_FOLDERS.map((name) => [`format-${name}`, new RegExp(`/src/formats/${name}/(?!.*errors|index)`)] as const),
];

/** For rolldown's `codeSplitting`; `more` come last. */
export function nodeGroups(
  ...more: readonly (readonly [name: string, test: RegExp])[]
): { name: string; test: RegExp; priority: number }[] {
  const groups = [...NODE_GROUPS, ...more];
  return groups.map(([name, test], i) => ({ name, test, priority: groups.length - i }));
}
