import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { transform } from "esbuild";
import { type Plugin, rolldown } from "rolldown";

const root = new URL("..", import.meta.url).pathname;

/**
 * What only writes, by who imports it: a format's object refers to its planner and writer, the engine to all primitives, a
 * worker to every job, so that nothing but this keeps them out of a page that only reads.
 */
const WRITING: readonly (readonly [importer: RegExp, imported: RegExp])[] = [
  [
    /\/src\/formats\/.*\/(?:format|wild\/index)\.ts$/,
    /\/(?:plan|plan-facts|plan-sealed|restamp|write|write-sealed|origin-facts|prepare|errors)\.ts$/,
  ],
  [/\/src\/workers\/jobs\.ts$/, /\/(?:seal-job|extract-job|quantize)\.ts$/],
  [/\/src\/primitives\/portable\.ts$/, /\/(?:gear|gear-\w+|reed-solomon|combine-\w+|quantizer|quantizer-\w+)\.ts$/],
];
const LEFT_OUT = "?left-out";

/** What every format needs to be opened, as one file: a server would be asked for a dozen otherwise. */
const CORE = new RegExp(
  [
    "/src/(?:base|struct)/",
    "/src/bytes/(?:extents|slice|memory|headed|read-guard|failing-source|delegating|inner-path)[.]ts$",
    "/src/model/(?:dtype|shape|tensor|metadata|values|uneven-source|finding|model|json-number|origin)[.]ts$",
    "/src/formats/(?:registry|foreign|[a-z]+/(?:known|sniff|detect))[.]ts$",
    "/viewer/reader/inheriting-script[.]ts$",
  ].join("|"),
);

/** Bundles the viewer into a folder that any web server can hand out. */
export async function bundleViewer(directory: string): Promise<void> {
  mkdirSync(directory, { recursive: true });
  const bundle = await rolldown({
    cwd: root,
    input: {
      main: "viewer/main.tsx",
      reader: "viewer/reader/worker.ts",
      hasher: "src/platform/web/worker-entry.ts",
    },
    platform: "browser",
    transform: { jsx: { runtime: "automatic", importSource: "preact" } },
    plugins: [withoutWriters()],
    checks: { ineffectiveDynamicImport: false },
  });
  await bundle.write({
    dir: directory,
    format: "esm",
    minify: true,
    comments: { legal: true },
    entryFileNames: "[name].js",
    chunkFileNames: "[name]-[hash].js",
    codeSplitting: { groups: [{ name: "core", test: CORE }] },
  });
  await bundle.close();
  await bundleBoot(directory);
  await writeStyle(directory);
  for (const name of ["index.html", "icon.svg"]) copyFileSync(`${root}viewer/${name}`, `${directory}/${name}`);
}

/** A classic script: what runs before modules are allowed. */
async function bundleBoot(directory: string): Promise<void> {
  const bundle = await rolldown({ cwd: root, input: { boot: "viewer/boot.ts" }, platform: "browser" });
  await bundle.write({ dir: directory, format: "iife", minify: true, entryFileNames: "[name].js" });
  await bundle.close();
}

/** The sheets in order of their names, as one. */
async function writeStyle(directory: string): Promise<void> {
  const sheets = readdirSync(`${root}viewer/style`).sort();
  const text = sheets.map((name) => readFileSync(`${root}viewer/style/${name}`, "utf8")).join("\n");
  const { code } = await transform(text, { loader: "css", minify: true });
  writeFileSync(`${directory}/style.css`, code);
}

/** Puts nothing in the place of what only writes. Whoever calls it by mistake finds it undefined. */
function withoutWriters(): Plugin {
  return {
    name: "without-writers",
    async resolveId(source, importer) {
      if (importer === undefined) return null;
      if (!WRITING.some(([from, what]) => from.test(importer) && what.test(source))) return null;
      const resolved = await this.resolve(source, importer);
      return resolved === null ? null : `${resolved.id}${LEFT_OUT}`;
    },
    load(id) {
      if (!id.endsWith(LEFT_OUT)) return null;
      const text = readFileSync(id.slice(0, -LEFT_OUT.length), "utf8");
      const names = [...text.matchAll(/^export (?:async )?(?:function\*?|const|class) (\w+)/gm)].map(
        ([, name]) => name,
      );
      return { code: names.map((name) => `export const ${name} = undefined;`).join("\n"), moduleType: "js" };
    },
  };
}
