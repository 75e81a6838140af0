import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** The package as users get it: packed, and installed into an empty project. */

const root = new URL("../..", import.meta.url).pathname;

/** Packs the project into `folder`; the path of the archive. */
export function pack(folder: string): string {
  execFileSync("npm", ["pack", "--ignore-scripts", "--pack-destination", folder, root], {
    cwd: folder,
    stdio: "ignore",
  });
  const name = readdirSync(folder).find((file) => file.endsWith(".tgz"));
  if (name === undefined) throw new Error(`npm pack wrote no archive into ${folder}`);
  return join(folder, name);
}

/** Makes an empty project and installs the archive, and other packages, into it. */
export function installInto(folder: string, archive: string, args: readonly string[] = []): void {
  mkdirSync(folder);
  writeFileSync(join(folder, "package.json"), JSON.stringify({ name: "app", private: true, type: "module" }));
  execFileSync("npm", ["install", "--no-audit", "--no-fund", ...args, archive], { cwd: folder, stdio: "ignore" });
}

/** The command line of an installed package. */
export function binOf(folder: string): string {
  return join(folder, "node_modules/tare/dist/bin/tare.js");
}
