import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { transform } from "esbuild";
import { type OutputChunk, type Plugin, rolldown } from "rolldown";
import { checkBundled } from "./third-party.ts";
import { VIEWER_GROUPS } from "./viewer-groups.ts";

const root = new URL("..", import.meta.url).pathname;

/** Bundles the viewer into a folder that any web server can serve. */
export async function bundleViewer(directory: string): Promise<void> {
  mkdirSync(directory, { recursive: true });
  const bundle = await rolldown({
    cwd: root,
    input: {
      main: "viewer/main.tsx",
      reader: "viewer/reader/worker.ts",
      hasher: "src/platform/web/worker-entry.ts",
      redirects: "viewer/redirects/worker.ts",
    },
    platform: "browser",
    transform: { jsx: { runtime: "automatic", importSource: "preact" } },
    plugins: [withoutReasons()],
    checks: { ineffectiveDynamicImport: false },
  });
  const { output } = await bundle.write({
    dir: directory,
    format: "esm",
    minify: true,
    comments: { legal: true },
    entryFileNames: "[name].js",
    chunkFileNames: "[name]-[hash:7].js",
    codeSplitting: {
      groups: VIEWER_GROUPS.map((group, i) => ({ ...group, priority: VIEWER_GROUPS.length - i })),
    },
  });
  await bundle.close();
  checkBundled(output);
  const chunks = output.filter((one) => one.type === "chunk");
  checkEntries(chunks);
  checkPrimitives(chunks);
  await bundleBoot(directory);
  await writeStyle(directory);
  for (const name of ["index.html", "icon.svg"]) copyFileSync(`${root}viewer/${name}`, `${directory}/${name}`);
}

/** The chunks that one loads, itself among them. */
function reach(chunks: readonly OutputChunk[], from: string, how: "at once" | "ever"): ReadonlySet<string> {
  const byName = new Map(chunks.map((chunk) => [chunk.fileName, chunk]));
  const seen = new Set<string>([from]);
  for (const name of seen) {
    const { imports = [], dynamicImports = [] } = byName.get(name) ?? {};
    for (const next of how === "ever" ? [...imports, ...dynamicImports] : imports) seen.add(next);
  }
  return seen;
}

/** Entries may share chunks, but must not import each other: a page that ran the reader's script would answer itself. */
function checkEntries(chunks: readonly OutputChunk[]): void {
  const entries = chunks.filter(({ isEntry }) => isEntry).map(({ fileName }) => fileName);
  for (const entry of entries) {
    const reached = reach(chunks, entry, "ever");
    const other = entries.find((name) => name !== entry && reached.has(name));
    if (other !== undefined) throw new Error(`${entry} loads ${other}: put what they share into a group of its own`);
  }
}

/** A primitive that shares a chunk with a format makes every other format load that one too. */
function checkPrimitives(chunks: readonly OutputChunk[]): void {
  const readers = chunks.filter(({ moduleIds }) => moduleIds.some((id) => /\/formats\/[^/]+\/read\.ts$/.test(id)));
  for (const { fileName, moduleIds } of chunks) {
    if (!moduleIds.every((id) => /\/src\/(?:primitives|kernels)\//.test(id))) continue;
    const reached = reach(chunks, fileName, "at once");
    const reader = readers.find((one) => reached.has(one.fileName));
    if (reader !== undefined)
      throw new Error(`${fileName} loads ${reader.fileName}: give the primitive a group of its own`);
  }
}

/** A classic script, for the code that runs before modules are allowed. */
async function bundleBoot(directory: string): Promise<void> {
  const bundle = await rolldown({
    cwd: root,
    input: { "content-policy": "viewer/content-policy.ts" },
    platform: "browser",
  });
  await bundle.write({ dir: directory, format: "iife", minify: true, entryFileNames: "[name].js" });
  await bundle.close();
}

/** Joins the style sheets, in the order of their names. */
async function writeStyle(directory: string): Promise<void> {
  const sheets = readdirSync(`${root}viewer/style`).sort();
  const text = sheets.map((name) => readFileSync(`${root}viewer/style/${name}`, "utf8")).join("\n");
  const { code } = await transform(text, { loader: "css", minify: true });
  writeFileSync(`${directory}/style.css`, code);
}

/** Removes the reasons from tables of limits: only the documentation uses them. */
function withoutReasons(): Plugin {
  return {
    name: "without-reasons",
    transform: {
      filter: { id: /\/limits\.ts$/ },
      handler: (code) => ({ code: code.replace(/reason:\s*"(?:[^"\\]|\\.)*"/g, 'reason: ""'), map: null }),
    },
  };
}
