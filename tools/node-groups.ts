import { existsSync, readdirSync } from "node:fs";

const root = new URL("..", import.meta.url).pathname;

/** The names of the folders of all formats. */
export const FORMAT_FOLDERS: readonly string[] = readdirSync(`${root}src/formats`, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name);

/** The formats that have an entry of the package. */
export const FORMAT_IDS: readonly string[] = FORMAT_FOLDERS.filter((name) =>
  existsSync(`${root}src/formats/${name}/library.ts`),
);

/**
 * The files of the bundles for Node. Node takes about a millisecond for each file, whatever its length. So the folders
 * that every job needs are one file, and each format is one. Lower layers come first: a group includes its imports,
 * unless an earlier group has them. Tiers of primitives and commands are loaded one by one, so they are in no group.
 */
const NODE_GROUPS: readonly (readonly [name: string, test: RegExp])[] = [
  ["core", /\/src\/(?:base|struct|bytes)\/|\/src\/model\/(?!bert\/)|\/src\/formats\/(?:\w+\/index|[^/]+)\.ts$/],
  ["open", /\/src\/(?:[^/]+\.ts|api\/(?:open\/)?[^/]+\.ts|operations\/reading\/)/],
  // Not the script of workers: what a thread imports must not run it.
  ["files", /\/src\/platform\/node\/(?:files\/|(?!worker-entry)[^/]+\.ts$)/],
  ["engine", /\/src\/(?:workers\/|primitives\/(?!.*-(?:javascript|wasm|webcrypto|web)\.ts))/],
  ...FORMAT_FOLDERS.map((name) => [`format-${name}`, new RegExp(`/src/formats/${name}/(?!library\\.ts)`)] as const),
];

/** For rolldown's `codeSplitting`; `more` come last. */
export function nodeGroups(
  ...more: readonly (readonly [name: string, test: RegExp])[]
): { name: string; test: RegExp; priority: number }[] {
  const groups = [...NODE_GROUPS, ...more];
  return groups.map(([name, test], i) => ({ name, test, priority: groups.length - i }));
}
