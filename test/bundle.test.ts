import { gzipSync } from "node:zlib";
import { build, type Metafile } from "esbuild";
import { expect, test } from "vitest";

const root = new URL("..", import.meta.url).pathname;

async function bundle(
  entry: string,
): Promise<{ readonly inputs: string[]; readonly external: string[]; readonly gzipBytes: number }> {
  const result = await build({
    absWorkingDir: root,
    entryPoints: [entry],
    bundle: true,
    minify: true,
    splitting: true,
    write: false,
    metafile: true,
    format: "esm",
    platform: "browser",
    target: "es2022",
    external: ["node:*"],
    outdir: "out",
  });
  const { outputs } = result.metafile;
  const sizes = new Map(
    result.outputFiles.map(({ path, contents }) => [baseName(path), gzipSync(contents).byteLength]),
  );
  const first = loadedFirst(outputs, entry);
  const imports = Object.values(outputs).flatMap((output) => output.imports);
  return {
    inputs: Object.keys(result.metafile.inputs),
    external: imports.filter((item) => item.external === true).map((item) => item.path),
    gzipBytes: first.reduce((sum, file) => sum + (sizes.get(baseName(file)) ?? Number.NaN), 0),
  };
}

/** The entry and what it imports at once: formats, kernels and catalogs are loaded when a file asks for them. */
function loadedFirst(outputs: Metafile["outputs"], entry: string): readonly string[] {
  const found = new Set(Object.keys(outputs).filter((file) => outputs[file]?.entryPoint === entry));
  for (const file of found) {
    for (const { path, kind } of outputs[file]?.imports ?? []) if (kind === "import-statement") found.add(path);
  }
  return [...found];
}

function baseName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

test.each(["src/index.ts", "src/platform/web/index.ts"])(
  "%s bundles for a browser without a node: import",
  async (entry) => {
    const { inputs, external } = await bundle(entry);
    expect(external).toEqual([]);
    expect(inputs.filter((input) => input.includes("platform/node") || input.includes("node_modules"))).toEqual([]);
  },
);

test("what the portable entry loads before it has seen a file stays below 96 kB", async () => {
  const { gzipBytes } = await bundle("src/index.ts");
  expect(gzipBytes).toBeLessThan(96_000);
});
