import { execFileSync } from "node:child_process";

/**
 * `npm run types`: core without Node or DOM types, the viewer with DOM types, then Node code with tests and tools, which
 * have the same options.
 */

const root = new URL("..", import.meta.url).pathname;
for (const config of [
  "tsconfig.core.json",
  "tsconfig.viewer.json",
  "tsconfig.viewer-test.json",
  "tsconfig.test.json",
]) {
  execFileSync(process.execPath, [`${root}node_modules/typescript/bin/tsc`, "-p", config, "--noEmit"], {
    cwd: root,
    stdio: "inherit",
  });
}
