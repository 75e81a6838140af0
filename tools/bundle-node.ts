import { rolldown } from "rolldown";
import { ADDONS, FORMAT_FOLDERS, nodeGroups } from "./node-groups.ts";

/**
 * Bundles the library for Node into a few files, all in one folder: `import "tare/node"` takes a third of the time that
 * its modules take one by one, and opening a model two thirds. Bundlers of web pages take the modules instead, of
 * which they keep what a page uses.
 */
export async function bundleNode(directory: string): Promise<void> {
  const bundle = await rolldown({
    cwd: new URL("..", import.meta.url).pathname,
    input: {
      index: "src/index.ts",
      node: "src/platform/node/index.ts",
      worker: "src/workers/index.ts",
      "worker-entry": "src/platform/node/worker-entry.ts",
      ...Object.fromEntries(FORMAT_FOLDERS.map((name) => [`formats/${name}`, `src/formats/${name}/library.ts`])),
    },
    platform: "node",
    external: [...ADDONS],
    checks: { ineffectiveDynamicImport: false },
    preserveEntrySignatures: "strict",
  });
  await bundle.write({
    dir: directory,
    format: "esm",
    comments: { legal: true },
    entryFileNames: "[name].js",
    chunkFileNames: "[name]-[hash].js",
    codeSplitting: { groups: nodeGroups() },
  });
  await bundle.close();
}
