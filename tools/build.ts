import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, renameSync, rmSync } from "node:fs";
import { buildKernels } from "./build-kernels.ts";
import { bundleCli } from "./bundle-cli.ts";
import { bundleNode } from "./bundle-node.ts";
import { bundleViewer } from "./bundle-viewer.ts";

/** `npm run build`: kernels, the library by tsc, the library and the command line bundled for Node, the viewer. */

const root = new URL("..", import.meta.url).pathname;

// Built aside and swapped in at the end, so that a running command line never sees half a build.
const staging = `${root}.dist-${process.pid}`;
await buildKernels();
compile("tsconfig.core.json");
// What only Node runs is bundled below; here are its types.
compile("tsconfig.node.json", "--emitDeclarationOnly");
rmSync(`${staging}/cli`, { recursive: true, force: true });

await bundleNode(`${staging}/node`);
if (existsSync(`${root}cli/main.ts`)) {
  await bundleCli(`${staging}/bin`);
  chmodSync(`${staging}/bin/tare.js`, 0o755);
}

await bundleViewer(`${staging}/viewer`);

rmSync(`${root}dist`, { recursive: true, force: true });
renameSync(staging, `${root}dist`);

function compile(config: string, ...flags: readonly string[]): void {
  const tsc = `${root}node_modules/typescript/bin/tsc`;
  execFileSync(process.execPath, [tsc, "-p", config, "--outDir", staging, ...flags], { cwd: root, stdio: "inherit" });
}
