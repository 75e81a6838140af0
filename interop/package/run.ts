import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { findChromium, NO_CHROMIUM } from "../../test/viewer/chromium.ts";
import { Outcome } from "../outcome.ts";
import { BUNDLERS, bundle, runPages, writePrograms } from "./bundles.ts";
import { nodeOf, runGuides } from "./guides.ts";
import { binOf, installInto, pack } from "./install.ts";
import { buildNext, runNodeBundles } from "./node-bundles.ts";

/**
 * The package as users get it: packed, installed into an empty project, with and without its optional packages. Every
 * guide runs with several versions of Node, pages of four bundlers run in Chromium, programs of four in Node, Next.js
 * builds both kinds of components, and attw and publint judge the archive. Everything comes from the npm registry. Run
 * with: tsx interop/package/run.ts
 */

const { values } = parseArgs({ options: { keep: { type: "boolean" } } });
const outcome = new Outcome("the package as users get it");
const work = mkdtempSync(join(tmpdir(), "tare-packed-"));

try {
  const archive = pack(work);
  const app = join(work, "app");
  const bare = join(work, "bare");
  installInto(app, archive);
  installInto(bare, archive, ["--omit=optional"]);
  for (const version of ["20", "22", "24"])
    await runGuides(outcome, app, { node: nodeOf(version, work), name: `Node ${version}` });
  await runGuides(outcome, bare, { node: process.execPath, name: `Node ${process.version} without optional packages` });
  await runBundles(app);
  const model = join(app, "files/model.safetensors");
  runNodeBundles(outcome, app, model);
  buildNext(outcome, join(work, "site"), archive, model);
  judge(archive);
} finally {
  if (values.keep === true) console.log(`files are in ${work}`);
  else rmSync(work, { recursive: true, force: true });
}
outcome.print();
process.exitCode = outcome.problems.length === 0 ? 0 : 1;

async function runBundles(project: string): Promise<void> {
  writePrograms(project);
  const pages = BUNDLERS.flatMap((bundler) => {
    const out = bundle(outcome, project, bundler);
    return out === undefined ? [] : [{ bundler, out }];
  });
  const executablePath = findChromium();
  if (executablePath === undefined) {
    outcome.note(`the bundles were not run: ${NO_CHROMIUM}`);
    return;
  }
  const files = join(project, "files");
  mkdirSync(files);
  const tare = (...args: string[]): string =>
    execFileSync(process.execPath, [binOf(project), ...args], { cwd: files, encoding: "utf8" });
  tare("demo", "demo", "-q");
  tare("convert", "demo/demo.safetensors", "model.safetensors", "-q");
  tare("convert", "model.safetensors", "model.aero", "--page-hashes", "--tensor-hashes", "-q");
  const { byteLength } = JSON.parse(tare("convert", "model.safetensors", "model.gguf", "--json"));
  const [first] = JSON.parse(tare("ls", "model.gguf", "--json")).tensors;
  const count = first.shape.reduce((product: number, dimension: number) => product * dimension, 1);
  const expected = JSON.stringify([true, "compared", byteLength, first.name, count]);
  execFileSync("cp", ["-r", join(project, "guides-Node-20/minilm"), files]);
  await runPages(outcome, pages, { executablePath, files, expected });
}

/** What the checkers of packages say. */
function judge(archive: string): void {
  for (const [name, args] of [
    ["attw", ["@arethetypeswrong/cli@0.18", archive, "--profile", "esm-only"]],
    ["publint", ["publint@0.3", archive, "--strict"]],
  ] as const) {
    const { status, stdout } = spawnSync("npx", ["--yes", ...args], { encoding: "utf8" });
    outcome.check(name, status === 0 ? [] : [stdout.slice(-600)]);
  }
}
