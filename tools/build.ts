import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, renameSync, rmSync } from "node:fs";
import { buildKernels } from "./build-kernels.ts";
import { bundleCli } from "./bundle-cli.ts";
import { bundleNode } from "./bundle-node.ts";
import { bundleViewer } from "./bundle-viewer.ts";
import { bundleWeb } from "./bundle-web.ts";
import { writeLicences } from "./third-party.ts";

/** `npm run build`: the kernels, the library's types by tsc, its bundles for Node and for pages, the command line, the viewer. */

const root = new URL("..", import.meta.url).pathname;

// Build in another folder and swap it in at the end, so that a running command line never sees half a build.
const staging = `${root}.dist-${process.pid}`;
await step("kernels: AssemblyScript to WebAssembly", buildKernels);
await step("types of the library", () => {
  compile("tsconfig.core.json");
  compile("tsconfig.node.json");
  rmSync(`${staging}/cli`, { recursive: true, force: true });
});
await step("library for Node", () => bundleNode(`${staging}/node`));
await step("library for web pages", () => bundleWeb(`${staging}/web`));
if (existsSync(`${root}cli/main.ts`)) {
  await step("command line", async () => {
    await bundleCli(`${staging}/bin`);
    chmodSync(`${staging}/bin/tare.js`, 0o755);
  });
}
await step("viewer", () => bundleViewer(`${staging}/viewer`));
await step("licences of what is bundled", () => writeLicences(staging));

rmSync(`${root}dist`, { recursive: true, force: true });
renameSync(staging, `${root}dist`);

/** Says what takes the time: npm ci is silent about everything else. */
async function step(what: string, work: () => void | Promise<void>): Promise<void> {
  process.stdout.write(`building ${what}`);
  const start = performance.now();
  await work();
  process.stdout.write(`, ${((performance.now() - start) / 1000).toFixed(1)} s\n`);
}

/** The types alone: the code is bundled. */
function compile(config: string): void {
  const tsc = `${root}node_modules/typescript/bin/tsc`;
  const args = [tsc, "-p", config, "--outDir", staging, "--emitDeclarationOnly"];
  execFileSync(process.execPath, args, { cwd: root, stdio: "inherit" });
}
