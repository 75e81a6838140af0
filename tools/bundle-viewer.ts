import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { transform } from "esbuild";
import { type OutputChunk, type Plugin, rolldown } from "rolldown";
import { VIEWER_GROUPS } from "./viewer-groups.ts";

const root = new URL("..", import.meta.url).pathname;

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
  checkEntries(output.filter((one) => one.type === "chunk"));
  await bundleBoot(directory);
  await writeStyle(directory);
  for (const name of ["index.html", "icon.svg"]) copyFileSync(`${root}viewer/${name}`, `${directory}/${name}`);
}

/** A page that ran the reader's script, or the other way round, would answer itself: entries share chunks and nothing else. */
function checkEntries(chunks: readonly OutputChunk[]): void {
  const byName = new Map(chunks.map((chunk) => [chunk.fileName, chunk]));
  const reach = (name: string, seen: Set<string>): Set<string> => {
    if (seen.has(name)) return seen;
    seen.add(name);
    const { imports = [], dynamicImports = [] } = byName.get(name) ?? {};
    for (const next of [...imports, ...dynamicImports]) reach(next, seen);
    return seen;
  };
  const entries = chunks.filter(({ isEntry }) => isEntry).map(({ fileName }) => fileName);
  for (const entry of entries) {
    const other = entries.find((name) => name !== entry && reach(entry, new Set()).has(name));
    if (other !== undefined) throw new Error(`${entry} loads ${other}: put what they share into a group of its own`);
  }
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

/** Tables of limits say why each is what it is, for the documentation alone. */
function withoutReasons(): Plugin {
  return {
    name: "without-reasons",
    transform: {
      filter: { id: /\/limits\.ts$/ },
      handler: (code) => ({ code: code.replace(/reason:\s*"(?:[^"\\]|\\.)*"/g, 'reason: ""'), map: null }),
    },
  };
}
