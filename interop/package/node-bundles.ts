import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Outcome } from "../outcome.ts";

/** Programs for Node, bundled by the bundlers that people use, without configuration beyond the target, and run. */

const PROGRAM = `
import { convert, memory, openModel, verify } from "tare/node";

async function main() {
  const out = memory();
  await convert(process.argv[2], out, { to: "aero", pageHashes: true });
  const { ok } = await verify(out.bytes);
  const model = await openModel(out.bytes);
  const { byteLength } = await model.tensors[0].bytes();
  await model.close();
  console.log(JSON.stringify([ok, model.tensors.length, byteLength > 0]));
}
main();
`;

/** Three lines, as webpack's own guide has them for Node. */
const WEBPACK = `module.exports = { mode: "production", target: "node20", entry: "./program.js",
  output: { path: __dirname + "/out-node-webpack", filename: "program.cjs" } };
`;

interface NodeBundler {
  readonly name: string;
  readonly args: readonly string[];
  /** The script that it makes. */
  readonly script: string;
}

export const NODE_BUNDLERS: readonly NodeBundler[] = [
  ...(["esm", "cjs"] as const).map((format) => {
    const script = `out-node-esbuild/program.${format === "esm" ? "mjs" : "cjs"}`;
    const args = ["esbuild@0.28", "program.js", "--bundle", "--platform=node", `--format=${format}`];
    return { name: `esbuild for Node, ${format}`, args: [...args, `--outfile=${script}`], script };
  }),
  {
    name: "webpack for Node",
    args: ["-p", "webpack@5", "-p", "webpack-cli@6", "webpack", "-c", "webpack.node.cjs"],
    script: "out-node-webpack/program.cjs",
  },
  {
    name: "rollup for Node",
    // Rollup knows neither packages nor the conditions of Node by itself.
    args: ["-p", "rollup@4", "-p", "@rollup/plugin-node-resolve@16", "rollup", "program.js"].concat([
      "-p",
      'node-resolve={exportConditions:["node"],preferBuiltins:true}',
      ...["-d", "out-node-rollup", "--entryFileNames", "program.mjs"],
    ]),
    script: "out-node-rollup/program.mjs",
  },
  {
    name: "vite for Node",
    args: ["vite@8", "build", "--ssr", "program.js", "--outDir", "out-node-vite", "-c", "vite.node.mjs"],
    script: "out-node-vite/program.js",
  },
];

/** Vite leaves packages out of a build for Node unless it is told to take them in. */
const VITE = `export default { ssr: { noExternal: true } };
`;

/** Bundles the program in an installed project with each bundler, and runs it where there is no package around it. */
export function runNodeBundles(outcome: Outcome, project: string, model: string): void {
  writeFileSync(join(project, "program.js"), PROGRAM);
  writeFileSync(join(project, "webpack.node.cjs"), WEBPACK);
  writeFileSync(join(project, "vite.node.mjs"), VITE);
  for (const { name, args, script } of NODE_BUNDLERS) {
    const { status, stdout, stderr } = spawnSync("npx", ["--yes", ...args], { cwd: project, encoding: "utf8" });
    const built = status === 0 && existsSync(join(project, script));
    outcome.check(`${name}: builds`, built ? [] : [(stdout + stderr).slice(-400)]);
    if (!built) continue;
    const said = spawnSync(process.execPath, [script, model], { cwd: project, encoding: "utf8" });
    const right = said.status === 0 && /^\[true,\d+,true\]$/m.test(said.stdout);
    outcome.check(`${name}: runs`, right ? [] : [(said.stdout + said.stderr).slice(-400)]);
  }
}

const NEXT_PAGE = `import { convert, memory, openModel } from "tare/node";
import { Client } from "./client.js";
export const dynamic = "force-dynamic";
export default async function Page() {
  const out = memory();
  await convert(process.cwd() + "/public/model.safetensors", out, { to: "aero" });
  const model = await openModel(out.bytes);
  await model.close();
  return <main><p>tensors: {String(model.tensors.length)}</p><Client /></main>;
}
`;

const NEXT_CLIENT = `"use client";
import { useEffect, useState } from "react";
import { openModel } from "tare";
export function Client() {
  const [count, setCount] = useState("none");
  useEffect(() => {
    openModel(new URL("/model.safetensors", location.href).href).then(
      async (model) => { setCount(String(model.tensors.length)); await model.close(); },
      (error) => setCount(String(error)),
    );
  }, []);
  return <p id="client">{count}</p>;
}
`;

/** Next.js: a server component and a client component, without a next.config. Only builds; returns the project. */
export function buildNext(outcome: Outcome, folder: string, archive: string, model: string): void {
  mkdirSync(join(folder, "app"), { recursive: true });
  mkdirSync(join(folder, "public"));
  writeFileSync(join(folder, "package.json"), JSON.stringify({ name: "site", private: true }));
  execFileSync("npm", ["install", "--no-audit", "--no-fund", "next@16", "react@19", "react-dom@19", archive], {
    cwd: folder,
    stdio: "ignore",
  });
  execFileSync("cp", [model, join(folder, "public/model.safetensors")]);
  writeFileSync(join(folder, "app/page.js"), NEXT_PAGE);
  writeFileSync(join(folder, "app/client.js"), NEXT_CLIENT);
  const layout = "export default ({ children }) => <html><body>{children}</body></html>;\n";
  writeFileSync(join(folder, "app/layout.js"), layout);
  for (const more of [[], ["--webpack"]]) {
    const env = { ...process.env, NEXT_TELEMETRY_DISABLED: "1" };
    const built = spawnSync("npx", ["next", "build", ...more], { cwd: folder, encoding: "utf8", env });
    const name = `Next.js, ${more.length === 0 ? "Turbopack" : "webpack"}`;
    outcome.check(`${name}: builds`, built.status === 0 ? [] : [(built.stdout + built.stderr).slice(-400)]);
  }
}
