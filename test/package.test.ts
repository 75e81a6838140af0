import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
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
    others: ["loadEmbedder", "open", "openModel"], // those of Node take paths as well
    worker: "function",
    formats: true,
    error: [true, true, "unsupported/gguf.version"],
  });
});

test("workers of the library start and hash what it hashes itself", () => {
  const found = run(`
    import { nodeEngine, openFile } from "tare/node";
    import { writeFileSync } from "node:fs";
    const path = process.argv[2] + "/long.bin";
    const bytes = new Uint8Array(96 << 20).map((_, i) => (i >> 12) ^ (i * 7));
    writeFileSync(path, bytes);
    let threads = 0;
    process.on("worker", () => threads++);
    const engine = await nodeEngine({ workers: 2 });
    const source = await openFile(path);
    const hex = (digest) => Buffer.from(digest).toString("hex");
    const range = await engine.digestRange("blake3", source, { offset: 0, byteLength: bytes.byteLength });
    console.log(JSON.stringify({ same: hex(range) === hex(await engine.digest("blake3", bytes)), threads }));
    await source.close();
    await engine.close();`);
  expect(found).toMatchObject({ same: true });
  expect((found as { threads: number }).threads).toBeGreaterThan(0);
});
