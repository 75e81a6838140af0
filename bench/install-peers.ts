import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";

/** `tsx bench/install-peers.ts`: fetches the programs that the benchmarks compare with, at the versions of the lock file. */

execFileSync(
  "npm",
  ["ci", "--prefix", fileURLToPath(new URL("./peers/", import.meta.url)), "--no-audit", "--no-fund"],
  {
    stdio: "inherit",
  },
);
