import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";
import { afterAll, beforeAll, expect, test } from "vitest";

/** Programs for Node that bundle the built library, as esbuild does without configuration. */

const root = new URL("..", import.meta.url).pathname;
let folder: string;

const PROGRAM = `
import { doctor, memory, convert, createModel, verify } from "tare/node";
async function main() {
  const out = memory();
  const model = createModel([{ name: "w", dtype: "F32", shape: [1 << 20], data: new Float32Array(1 << 20) }]);
  await convert(model, out, { to: "aero", pageHashes: true });
  const { ok } = await verify(out.bytes, { level: "full" });
  console.log(JSON.stringify({ ok, bytes: out.bytes.byteLength, doctor: typeof (await doctor()).version }));
}
main();
`;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "tare-bundles-"));
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(root, join(folder, "node_modules/tare"));
  writeFileSync(join(folder, "package.json"), '{"name":"app","type":"module"}');
  writeFileSync(join(folder, "entry.js"), PROGRAM);
});
afterAll(() => rmSync(folder, { recursive: true }));

test.each([
  ["esm", "out/app.mjs"],
  ["cjs", "out/app.cjs"],
] as const)("bundled as %s, the library builds without configuration and runs", async (format, outfile) => {
  const { errors } = await build({
    ...{ absWorkingDir: folder, entryPoints: ["entry.js"], outfile, format },
    ...{ bundle: true, platform: "node", logLevel: "silent" },
  });
  expect(errors).toEqual([]);
  // A program's own script of this name is not ours to start.
  writeFileSync(join(folder, "out/worker-entry.js"), 'throw new Error("not the worker of tare")');
  const said = execFileSync(process.execPath, [join(folder, outfile)], { cwd: folder, encoding: "utf8" });
  expect(JSON.parse(said)).toMatchObject({ ok: true, doctor: "string" });
});

test("the built files name nothing of the tree that they were built from", () => {
  for (const part of ["node", "bin"]) {
    const scripts = readdirSync(join(root, "dist", part)).filter((name) => name.endsWith(".js"));
    for (const name of scripts) {
      const text = readFileSync(join(root, "dist", part, name), "utf8");
      expect(text.match(/["'`](?:\.\.\/){2,}[\w./-]*dist\b[\w./-]*["'`]/g), `${part}/${name}`).toBeNull();
      // What bundlers follow: a worker or an addon that they copy is there without what it needs.
      expect(text.match(/new URL\([^)]*,\s*import\.meta\.url\)/g), `${part}/${name}`).toBeNull();
      expect(text.match(/import\(["'`]@(?:cloudpss|napi-rs|node-rs)\//g), `${part}/${name}`).toBeNull();
    }
  }
});
