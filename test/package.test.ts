import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";

const root = new URL("..", import.meta.url).pathname;

/** The files that importing one of them loads at once. */
function loadedBy(file: string, seen = new Set<string>()): Set<string> {
  if (seen.has(file)) return seen;
  seen.add(file);
  for (const [, name = ""] of readFileSync(file, "utf8").matchAll(/^(?:import|export) .*?"(\.\.?\/[^"]+)";$/gm)) {
    loadedBy(join(dirname(file), name), seen);
  }
  return seen;
}

/** Runs as a program that has installed the package would. */
function run(script: string): unknown {
  const folder = mkdtempSync(join(tmpdir(), "tare-package-"));
  const file = join(root, `.readme-example-package-${process.pid}.mjs`);
  try {
    writeFileSync(file, script);
    return JSON.parse(execFileSync(process.execPath, [file, folder], { encoding: "utf8" }));
  } finally {
    rmSync(folder, { recursive: true, force: true });
    rmSync(file, { force: true });
  }
}

test("in Node the library is a few files: each would cost a millisecond", () => {
  expect(loadedBy(join(root, "dist/node/node.js")).size).toBeLessThan(15);
  expect(loadedBy(join(root, "dist/node/index.js")).size).toBeLessThan(15);
});

test("all entries of the package are one library", () => {
  const found = run(`
    import * as portable from "tare";
    import * as node from "tare/node";
    import * as worker from "tare/worker";
    import * as gguf from "tare/formats/gguf";
    import { writeFileSync } from "node:fs";
    const shared = Object.keys(portable).filter((name) => name in node);
    const path = process.argv[2] + "/wrong.gguf";
    writeFileSync(path, "GGUF\\u0009\\0\\0\\0");
    const error = await node.openModel(path).catch((error) => error);
    console.log(JSON.stringify({
      others: shared.filter((name) => portable[name] !== node[name]),
      worker: typeof worker.pooledEngine,
      formats: Object.keys(gguf).length > 0,
      error: [error instanceof portable.TareError, error instanceof node.UnsupportedError, error.code],
    }));`);
  expect(found).toEqual({
    // Those of Node take paths as well.
    others: expect.arrayContaining(["cat", "diff", "extract", "inspect", "list", "open", "openModel", "verify"]),
    worker: "function",
    formats: true,
    error: [true, true, "unsupported/gguf.version"],
  });
});

test("workers of the library start, and prove what the calling thread proves", () => {
  const found = run(`
    import { convert, createModel, verify } from "tare/node";
    const path = process.argv[2] + "/long.aero";
    const data = new Uint8Array(96 << 20).map((_, i) => (i >> 12) ^ (i * 7));
    await convert(createModel([{ name: "w", dtype: "U8", shape: [data.byteLength], data }]), path, { tensorHashes: true });
    let threads = 0;
    process.on("worker", () => threads++);
    const { ok, weights } = await verify(path, { concurrency: 2 });
    const { ok: alone } = await verify(path, { engine: "portable" });
    console.log(JSON.stringify({ ok, alone, weights, threads }));`);
  expect(found).toMatchObject({ ok: true, alone: true, weights: "compared" });
  expect((found as { threads: number }).threads).toBeGreaterThan(0);
});

test.each([
  ["node", ["worker-entry.js"]],
  ["web", ["embedder-entry.js", "worker-entry.js"]],
])("in dist/%s what starts a worker is in that worker's script alone", (folder, scripts) => {
  const files = readdirSync(join(root, "dist", folder)).filter((name) => name.endsWith(".js.map"));
  const sourcesOf = (name: string): string =>
    readFileSync(join(root, "dist", folder, name), "utf8").split('"sourcesContent"')[0] ?? "";
  const found = files.filter((name) => /(?:worker|embedder)-entry\.ts"/.test(sourcesOf(name)));
  expect(found.map((name) => name.slice(0, -".map".length)).sort()).toEqual(scripts);
});

test("in a worker thread of a program's own, the library works and leaves the thread's port alone", () => {
  const found = run(`
    import { Worker, isMainThread, parentPort, workerData } from "node:worker_threads";
    const tensors = (createModel) => createModel([{ name: "w", dtype: "F32", shape: [2], data: new Float32Array(2) }]);
    if (isMainThread) {
      const answers = [];
      for (const data of [undefined, { tier: "auto" }]) {
        const worker = new Worker(new URL(import.meta.url), { workerData: data });
        setTimeout(() => worker.terminate(), 20000).unref();
        worker.on("message", (message) => answers.push(message));
        worker.on("error", (error) => answers.push(String(error)));
        await new Promise((ended) => worker.on("exit", ended));
      }
      console.log(JSON.stringify(answers));
    } else {
      for (const entry of ["tare", "tare/node"]) {
        const { convert, createModel, memory, stats } = await import(entry);
        const out = memory();
        await convert(tensors(createModel), out, { to: "safetensors" });
        parentPort.postMessage([entry, (await stats(out.bytes)).tensors.length]);
      }
    }`);
  const both = [
    ["tare", 1],
    ["tare/node", 1],
  ];
  expect(found).toEqual([...both, ...both]);
});
