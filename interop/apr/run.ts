import { existsSync } from "node:fs";
import { parseArgs } from "node:util";
import { checkFiles } from "./files.ts";
import { checkMalformed } from "./malformed.ts";

/**
 * Reads files that ten releases of aprender, realizar and whisper.apr wrote, and compares every tensor, type, value and
 * checksum with the recorded ones. Run with: tsx interop/apr/run.ts --cases FOLDER, a folder with expected.json and
 * malformed.json next to the files.
 */

const { values } = parseArgs({ options: { cases: { type: "string" } } });
const folder = values.cases;
if (folder === undefined || !existsSync(`${folder}/expected.json`)) {
  console.log("APR files of other programs: skipped, name a folder with expected.json by --cases FOLDER");
} else {
  const outcomes = [await checkFiles(folder), await checkMalformed(folder)];
  for (const outcome of outcomes) outcome.print();
  if (outcomes.some(({ problems }) => problems.length > 0)) process.exitCode = 1;
}
