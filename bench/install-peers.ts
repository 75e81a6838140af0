import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";

/** `tsx bench/install-peers.ts`: installs the programs that the benchmarks compare with, in the locked versions. */

// Their install scripts download things that the benchmarks do not need.
for (const folder of ["peers", "embedding-peers", "embedding-models"]) {
  const prefix = fileURLToPath(new URL(`./${folder}/`, import.meta.url));
  execFileSync("npm", ["ci", "--prefix", prefix, "--ignore-scripts", "--no-audit", "--no-fund"], { stdio: "inherit" });
}
