import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { soak } from "./soak.ts";

const USAGE = `npm run soak -- [--minutes N] [--writers N] [--seed N]

Writers, killers and readers at random on one vault after another, short and long, with and without encryption, by the built
program. At the end of each every change that was reported must be there, and nothing else; the vault must scrub clean.
`;

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "60" },
    writers: { type: "string", default: "4" },
    seed: { type: "string", default: "1" },
    help: { type: "boolean", short: "h" },
  },
});
if (values.help === true) {
  process.stdout.write(USAGE);
  process.exit(0);
}
const end = performance.now() + Number(values.minutes) * 60_000;
const kinds = [
  { size: "long", lane: "plain" },
  { size: "long", lane: "encrypted" },
  { size: "short", lane: "encrypted" },
  { size: "short", lane: "plain" },
] as const;
let problems = 0;
for (let round = 0; performance.now() < end; round++) {
  const folder = mkdtempSync(join(tmpdir(), "tare-soak-"));
  const kind = kinds[round % kinds.length] as (typeof kinds)[number];
  const seed = Number(values.seed) + round;
  const until = (): boolean => performance.now() >= end;
  const report = await soak({ folder, seed, changes: 200, until, writers: Number(values.writers), ...kind });
  console.log(`seed ${seed}, ${kind.size}, ${kind.lane}: ${JSON.stringify(report)}`);
  problems += report.problems.length;
  // What went wrong is kept to be looked at.
  if (report.problems.length > 0) console.error(`kept in ${folder}`);
  else rmSync(folder, { recursive: true });
}
process.exit(problems === 0 ? 0 : 1);
