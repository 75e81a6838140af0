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

/** What a program gets in one file: import() brings in what it names. */
async function oneFile(program: string): Promise<{ readonly inputs: string[]; readonly gzipBytes: number }> {
  const result = await build({
    stdin: { contents: program, resolveDir: root, loader: "ts" },
    bundle: true,
    minify: true,
    write: false,
    metafile: true,
    format: "esm",
    target: "es2022",
    outdir: "out",
  });
  const [output] = Object.values(result.metafile.outputs);
  const inputs = Object.entries(output?.inputs ?? {}).filter(([, { bytesInOutput }]) => bytesInOutput > 0);
  const contents = result.outputFiles[0]?.contents ?? new Uint8Array();
  return { inputs: inputs.map(([name]) => name), gzipBytes: gzipSync(contents).byteLength };
}

test.each(["safetensors", "gguf", "onnx"])(
  "a bundle of %s alone has no other format, and no primitives",
  async (id) => {
    const { inputs, gzipBytes } = await oneFile(
      `import { open } from "./src/formats/${id}/library.ts"; console.log((await open("https://x/y")).tensors.length);`,
    );
    const others = inputs.filter((name) => /src\/(?:kernels|formats\/\w+)\//.test(name) && !name.includes(`/${id}/`));
    expect(others).toEqual([]);
    expect(gzipBytes).toBeLessThan(id === "safetensors" ? 60_000 : 70_000);
  },
);

test("a page that only opens has no other verb before it is asked for one", async () => {
  const { inputs } = await oneFile(
    `import { openModel } from "./src/index.ts"; console.log((await openModel("https://x/y")).tensors.length);`,
  );
  expect(inputs.filter((name) => /src\/(?:operations|embedding|api\/(?:move|embed|look))\//.test(name))).toEqual([]);
});

test("what the portable entry loads before it has seen a file stays below 60 kB", async () => {
  const { gzipBytes } = await bundle("src/index.ts");
  expect(gzipBytes).toBeLessThan(60_000);
});
