import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";

/** `tsx bench/install-peers.ts`: fetches the programs that the benchmarks compare with, at the versions of the lock file. */

// Their install scripts fetch what the benchmarks have no use for.
for (const folder of ["peers", "embedding-peers", "embedding-models"]) {
  const prefix = fileURLToPath(new URL(`./${folder}/`, import.meta.url));
  execFileSync("npm", ["ci", "--prefix", prefix, "--ignore-scripts", "--no-audit", "--no-fund"], { stdio: "inherit" });
}
