import { writeFileSync } from "node:fs";
import { rolldown } from "rolldown";
import { nodeGroups } from "./node-groups.ts";
import { checkBundled } from "./third-party.ts";

/**
 * Bundles the command line and its workers so that they start fast. CommonJS, because Node 20 loads it in two thirds of
 * the time that the same modules take as ESM.
 */
export async function bundleCli(directory: string): Promise<void> {
  const bundle = await rolldown({
    cwd: new URL("..", import.meta.url).pathname,
    input: { tare: "cli/start.ts", "worker-entry": "src/platform/node/worker-entry.ts" },
    platform: "node",
    checks: { ineffectiveDynamicImport: false }, // code in a group is loaded anyway, so its dynamic imports do nothing
  });
  const { output } = await bundle.write({
    dir: directory,
    format: "cjs",
    minify: true,
    keepNames: true, // stack traces of a bug report stay readable
    comments: { legal: true },
    entryFileNames: "[name].js",
    chunkFileNames: "[name]-[hash].js",
    banner: ({ name }) => (name === "tare" ? "#!/usr/bin/env node" : ""),
    codeSplitting: { groups: nodeGroups(["render", /\/cli\/render\//]) },
  });
  await bundle.close();
  checkBundled(output);
  writeFileSync(`${directory}/package.json`, '{ "type": "commonjs" }\n');
}
