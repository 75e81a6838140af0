import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { build as bundle } from "esbuild";
import { build, type Rolldown } from "vite";
import { expect, test } from "vitest";

const root = new URL("..", import.meta.url).pathname;

const PROGRAM = `
import { openModel } from "tare";
await using model = await openModel(location.hash.slice(1));
document.title = String((await model.tensor("a").toFloat32()).length);
`;

test("a page that opens a SafeTensors URL loads 35 kB before lazy parts, and few files", async () => {
  const folder = mkdtempSync(join(tmpdir(), "tare-page-"));
  try {
    mkdirSync(join(folder, "node_modules"));
    symlinkSync(root, join(folder, "node_modules/tare"));
    writeFileSync(join(folder, "package.json"), '{"type":"module"}');
    writeFileSync(join(folder, "index.html"), '<script type="module" src="./main.js"></script>');
    writeFileSync(join(folder, "main.js"), PROGRAM);
    const settings = { write: false, target: "es2022" } as const;
    const made = (await build({ root: folder, logLevel: "silent", build: settings })) as Rolldown.RolldownOutput;
    const chunks = made.output.filter((file) => file.type === "chunk");
    const byName = new Map(chunks.map((chunk) => [chunk.fileName, chunk]));
    const loaded = (start: readonly string[]): ReadonlySet<string> => {
      const seen = new Set(start);
      for (const name of seen) for (const other of byName.get(name)?.imports ?? []) seen.add(other);
      return seen;
    };
    const first = loaded(chunks.filter(({ isEntry }) => isEntry).map(({ fileName }) => fileName));
    const gzipBytes = [...first].reduce((sum, name) => sum + gzipSync(byName.get(name)?.code ?? "").byteLength, 0);
    expect(gzipBytes).toBeLessThanOrEqual(35_000);
    const reader = loaded(chunks.filter(({ name }) => /format-safetensors/.test(name)).map(({ fileName }) => fileName));
    // With the two reads of the model, eight requests beside that of the page.
    expect(new Set([...first, ...reader]).size).toBeLessThanOrEqual(6);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("one file with open of tare/formats/safetensors is 60 kB", async () => {
  const contents = `import { open } from "./dist/web/formats/safetensors.js"; console.log((await open("https://x/y")).tensors);`;
  const stdin = { contents, resolveDir: root };
  const options = { bundle: true, minify: true, write: false, format: "esm", target: "es2022" } as const;
  const { outputFiles } = await bundle({ stdin, ...options, logLevel: "silent" });
  expect(gzipSync(outputFiles[0]?.contents ?? "").byteLength).toBeLessThanOrEqual(60_000);
});
