import { gzipSync } from "node:zlib";
import { build } from "esbuild";
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
  // Chunks come in no order: the entry is the one that the metafile calls so.
  const file = Object.entries(result.metafile.outputs).find(([, output]) => output.entryPoint === entry)?.[0] ?? "";
  const own = result.outputFiles.find(({ path }) => path.endsWith(file));
  const imports = Object.values(result.metafile.outputs).flatMap((output) => output.imports);
  return {
    inputs: Object.keys(result.metafile.inputs),
    external: imports.filter((item) => item.external === true).map((item) => item.path),
    // The entry's own file: kernels are chunks of their own, loaded when something is hashed.
    gzipBytes: own === undefined ? Number.NaN : gzipSync(own.contents).byteLength,
  };
}

test.each(["src/index.ts", "src/platform/web/index.ts"])(
  "%s bundles for a browser without a node: import",
  async (entry) => {
    const { inputs, external } = await bundle(entry);
    expect(external).toEqual([]);
    expect(inputs.filter((input) => input.includes("platform/node") || input.includes("node_modules"))).toEqual([]);
  },
);

test("the portable entry with every reader, writer and operation stays below 190 kB", async () => {
  const { gzipBytes } = await bundle("src/index.ts");
  expect(gzipBytes).toBeLessThan(190_000);
});
