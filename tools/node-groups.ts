import { readdirSync } from "node:fs";

const root = new URL("..", import.meta.url).pathname;

/** Formats by the names of their folders. */
export const FORMAT_FOLDERS: readonly string[] = readdirSync(`${root}src/formats`, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name);

/** Optional, and found when asked for. */
export const ADDONS: readonly RegExp[] = [/^@napi-rs\/blake-hash/, /^@cloudpss\/zstd/, /^@node-rs\/argon2/];

/**
 * What the bundles for Node hold together: Node takes about a millisecond for each file, whatever its length. Folders
 * that every job needs are one file, and each format is one. Lower layers come first: a group takes what it imports
 * along, unless an earlier one has it. Tiers of primitives and commands are loaded one by one, so they are in no group.
 */
const NODE_GROUPS: readonly (readonly [name: string, test: RegExp])[] = [
  ["core", /\/src\/(?:base|struct|bytes)\/|\/src\/model\/(?!bert\/)|\/src\/formats\/(?:\w+\/index|[^/]+)\.ts$/],
  ["engine", /\/src\/(?:workers\/(?!.*-job)|primitives\/(?!.*-(?:javascript|wasm|webcrypto|web)\.ts))/],
  ...FORMAT_FOLDERS.map((name) => [`format-${name}`, new RegExp(`/src/formats/${name}/`)] as const),
];

/** For rolldown's `codeSplitting`; `more` come last. */
export function nodeGroups(
  ...more: readonly (readonly [name: string, test: RegExp])[]
): { name: string; test: RegExp; priority: number }[] {
  const groups = [...NODE_GROUPS, ...more];
  return groups.map(([name, test], i) => ({ name, test, priority: groups.length - i }));
}
