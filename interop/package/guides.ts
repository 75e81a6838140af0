import { execFile, execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { transform } from "esbuild";
import { GUIDES, makeGuideFolder, snippetsOf } from "../../test/support/guides.ts";
import type { Outcome } from "../outcome.ts";
import { binOf } from "./install.ts";

const run = promisify(execFile);

/** Runs every guide of docs/guides, snippet by snippet, in an installed project with one version of Node. */
export async function runGuides(
  outcome: Outcome,
  project: string,
  { node, name }: { readonly node: string; readonly name: string },
): Promise<void> {
  const work = join(project, `guides-${name.replaceAll(/\W+/g, "-")}`);
  mkdirSync(work);
  const guides = await makeGuideFolder(work, async (args, env) => {
    await run(node, [binOf(project), ...args], { cwd: work, env: { ...process.env, ...env } });
  });
  const env = { ...process.env, TARE_CACHE: join(work, "cache"), XDG_STATE_HOME: join(work, "state") };
  try {
    for (const guide of GUIDES) {
      for (const [i, { code }] of snippetsOf(`docs/guides/${guide}.md`).entries()) {
        const script = join(work, `${guide}-${i}.mjs`);
        writeFileSync(script, (await transform(guides.local(code), { loader: "ts", target: "es2022" })).code);
        const problem = await run(node, [script], { cwd: work, env }).then(
          ({ stderr }) => stderr.replace(/^(writing|quantizing|verifying) .*\n/gm, ""),
          (error: Error & { readonly stderr?: string }) => error.stderr ?? error.message,
        );
        outcome.check(
          `${name}, docs/guides/${guide}.md, snippet ${i + 1}`,
          problem === "" ? [] : [problem.slice(-300)],
        );
      }
    }
  } finally {
    await guides.close();
  }
}

/** A version of Node, as npm brings it for this machine; its path. */
export function nodeOf(version: string, folder: string): string {
  const place = join(folder, `node-${version}`);
  mkdirSync(place);
  writeFileSync(join(place, "package.json"), '{"private":true}');
  const name = `node-${process.platform}-${process.arch}`;
  execFileSync("npm", ["install", "--no-audit", "--no-fund", "--ignore-scripts", `${name}@${version}`], {
    cwd: place,
    stdio: "ignore",
  });
  return join(place, `node_modules/${name}/bin/node`);
}
