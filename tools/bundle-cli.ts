import { readdirSync, writeFileSync } from "node:fs";
import { rolldown } from "rolldown";

/**
 * Bundles the command line and its workers so that they start fast. What every command needs is one file, each format
 * is one, and the rest is split by what is loaded together: Node takes about a millisecond for each file, whatever its
 * length. CommonJS, because Node 20 loads it in two thirds of the time that the same modules take as ESM.
 */
export async function bundleCli(directory: string): Promise<void> {
  const root = new URL("..", import.meta.url).pathname;
  const bundle = await rolldown({
    cwd: root,
    input: { tare: "cli/start.ts", "worker-entry": "cli/start-worker.ts" },
    platform: "node",
    external: [/^@napi-rs\/blake-hash/, /^@cloudpss\/zstd/, /^@node-rs\/argon2/], // optional, and found when asked for
    checks: { ineffectiveDynamicImport: false }, // what a group holds need not be loaded a second time
  });
  await bundle.write({
    dir: directory,
    format: "cjs",
    minify: true,
    keepNames: true, // stack traces of a bug report stay readable
    comments: { legal: true },
    entryFileNames: "[name].js",
    chunkFileNames: "[name]-[hash].js",
    banner: ({ name }) => (name === "tare" ? "#!/usr/bin/env node" : ""),
    codeSplitting: { groups: groupsOf(root) },
  });
  await bundle.close();
  writeFileSync(`${directory}/package.json`, '{ "type": "commonjs" }\n');
}

/** Lower layers come first: a group takes what it imports along, unless an earlier one has it. */
function groupsOf(root: string): { name: string; test: RegExp; priority: number }[] {
  const formats = readdirSync(`${root}src/formats`, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const groups: readonly (readonly [name: string, test: RegExp])[] = [
    [
      "core",
      /\/src\/((base|struct|bytes)\/|model\/(?!bert\/)|primitives\/(compress\/(zstd|zstd-frame|lz4)|quant\/quantizer)\.ts|formats\/(registry|foreign|\w+\/(known|sniff))\.ts)/,
    ],
    ["addons", /\/src\/platform\/node\/\w+-addon/], // the only ones that import modules: their code is not kept
    ["crypto", /\/src\/primitives\/crypto\/(?!.*(javascript|webcrypto))/],
    [
      "engine",
      /\/src\/(primitives\/(engine|table-engine|portable|range|extents|choice|digest\/(?!.*(wasm|javascript))|encoding\/)|workers\/|platform\/node\/[a-z-]*(engine|worker|file-source|file-reads))/,
    ],
    ...formats.map(({ name }) => [`format-${name}`, new RegExp(`/src/formats/${name}/(?!.*errors)`)] as const),
    ["render", /\/cli\/render\//],
  ];
  return groups.map(([name, test], i) => ({ name, test, priority: groups.length - i }));
}
