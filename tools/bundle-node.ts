import { rolldown } from "rolldown";
import { FORMAT_IDS, nodeGroups } from "./node-groups.ts";
import { leaveOutKernels } from "./source-maps.ts";
import { checkBundled } from "./third-party.ts";

/**
 * Bundles the library for Node into a few files, all in one folder. `import "tare/node"` takes a third of the time of
 * separate modules, and opening a model two thirds. Bundlers of web pages take the modules instead, and keep only those
 * that a page uses.
 */
export async function bundleNode(directory: string): Promise<void> {
  const bundle = await rolldown({
    cwd: new URL("..", import.meta.url).pathname,
    input: {
      index: "src/index.ts",
      node: "src/platform/node/index.ts",
      vault: "src/platform/node/vault/library.ts",
      worker: "src/workers/index.ts",
      "worker-entry": "src/platform/node/worker-entry.ts",
      bytes: "src/bytes/index.ts",
      ...Object.fromEntries(FORMAT_IDS.map((id) => [`formats/${id}`, `src/formats/${id}/library.ts`])),
    },
    platform: "node",
    checks: { ineffectiveDynamicImport: false },
    preserveEntrySignatures: "strict",
  });
  const { output } = await bundle.write({
    dir: directory,
    format: "esm",
    sourcemap: true,
    comments: { legal: true },
    entryFileNames: "[name].js",
    chunkFileNames: "[name]-[hash].js",
    codeSplitting: { groups: nodeGroups() },
  });
  await bundle.close();
  checkBundled(output);
  leaveOutKernels(directory);
}
