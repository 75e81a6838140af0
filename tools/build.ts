import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, renameSync, rmSync } from "node:fs";
import { buildKernels } from "./build-kernels.ts";
import { bundleCli } from "./bundle-cli.ts";
import { bundleViewer } from "./bundle-viewer.ts";

/** `npm run build`: kernels, then the library by tsc, then the command line bundled so that it starts fast, then the viewer. */

const root = new URL("..", import.meta.url).pathname;

// Built aside and swapped in at the end, so that a running command line never sees half a build.
const staging = `${root}.dist-${process.pid}`;
await buildKernels();
for (const config of ["tsconfig.core.json", "tsconfig.node.json"]) {
  execFileSync(process.execPath, [`${root}node_modules/typescript/bin/tsc`, "-p", config, "--outDir", staging], {
    cwd: root,
    stdio: "inherit",
  });
}

if (existsSync(`${root}cli/main.ts`)) {
  await bundleCli(`${staging}/bin`);
  chmodSync(`${staging}/bin/tare.js`, 0o755);
}

await bundleViewer(`${staging}/viewer`);

rmSync(`${root}dist`, { recursive: true, force: true });
renameSync(staging, `${root}dist`);
