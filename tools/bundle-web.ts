import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { rolldown } from "rolldown";
import { FORMAT_IDS } from "./node-groups.ts";
import { leaveOutKernels } from "./source-maps.ts";
import { checkBundled } from "./third-party.ts";

const root = new URL("..", import.meta.url).pathname;

/**
 * Bundles the library for bundlers of web pages into a few files. Each file of a page is a request, and bundlers cut
 * separate modules wherever two lazy parts share one: a page that opened a model had forty of them. Cut here are what
 * the first call needs at once, what the readers of several formats share, and each reader.
 */
export async function bundleWeb(directory: string): Promise<void> {
  const first = staticClosure(["src/api/open/portable.ts", "src/api/open/one-format.ts"]);
  const readers = FORMAT_IDS.map((id) => staticClosure([`src/formats/${id}/read.ts`]));
  const shared = new Set(
    [...new Set(readers.flatMap((reader) => [...reader]))].filter(
      (file) => !first.has(file) && readers.filter((reader) => reader.has(file)).length > sharedBy(file),
    ),
  );
  const group = (name: string, has: (file: string) => boolean, priority: number) => ({
    name,
    test: (id: string) => has(id.slice(root.length)),
    priority,
  });
  const bundle = await rolldown({
    cwd: root,
    input: { ...Object.fromEntries(Object.entries(ENTRIES).map(([name, file]) => [codeOf(name), file])), ...WORKERS },
    platform: "browser",
    checks: { ineffectiveDynamicImport: false },
    preserveEntrySignatures: "allow-extension",
  });
  const { output } = await bundle.write({
    dir: directory,
    format: "esm",
    sourcemap: true,
    comments: { legal: true },
    entryFileNames: "[name].js",
    chunkFileNames: "[name]-[hash].js",
    codeSplitting: {
      includeDependenciesRecursively: false,
      groups: [
        group("open", (file) => first.has(file), 30),
        group("model", (file) => shared.has(file), 20),
        ...FORMAT_IDS.map((id, i) =>
          group(`format-${id}`, (file) => readers[i]?.has(file) === true && file.startsWith(`src/formats/${id}/`), 10),
        ),
      ],
    },
  });
  await bundle.close();
  checkBundled(output);
  leaveOutKernels(directory);
  // Other files take what they need out of these, so an entry hands out its own names alone.
  for (const [name, names] of await exportedNames()) {
    const from = `./${codeOf(name).split("/").at(-1)}.js`;
    writeFileSync(join(directory, `${name}.js`), `export { ${names.join(", ")} } from "${from}";\n`);
  }
}

/** The entries of the package that pages load. */
const ENTRIES: Readonly<Record<string, string>> = {
  index: "src/index.ts",
  web: "src/platform/web/index.ts",
  bytes: "src/bytes/index.ts",
  vault: "src/api/vault/index.ts",
  worker: "src/workers/index.ts",
  ...Object.fromEntries(FORMAT_IDS.map((id) => [`formats/${id}`, `src/formats/${id}/library.ts`])),
};

const WORKERS = {
  "worker-entry": "src/platform/web/worker-entry.ts",
  "embedder-entry": "src/platform/web/embedder-entry.ts",
};

/**
 * How many readers may share a module that is not in their common file. Modules of the layers below two readers join it,
 * because each further file of a page is a request; those of another format's folder only where three have them.
 */
function sharedBy(file: string): number {
  return file.startsWith("src/formats/") ? 2 : 1;
}

function codeOf(name: string): string {
  return name.replace(/[^/]+$/, (last) => `${last}-code`);
}

async function exportedNames(): Promise<readonly (readonly [name: string, names: readonly string[]])[]> {
  const bundle = await rolldown({
    cwd: root,
    input: ENTRIES,
    platform: "browser",
    checks: { ineffectiveDynamicImport: false },
    preserveEntrySignatures: "strict",
  });
  const { output } = await bundle.generate({ format: "esm" });
  await bundle.close();
  return output.flatMap((file) => (file.type === "chunk" && file.isEntry ? [[file.name, file.exports] as const] : []));
}

/** The files that these import at once, themselves included. Types are erased and do not count. */
function staticClosure(files: readonly string[]): ReadonlySet<string> {
  const seen = new Set(files);
  for (const file of seen) {
    const text = readFileSync(join(root, file), "utf8").replace(/\/\*[\s\S]*?\*\//g, "");
    for (const [, kind, names = "", from = ""] of text.matchAll(/^(import|export) ([^"';]*?)from "(\.[^"]+)"/gm)) {
      if (kind === undefined || names.startsWith("type ")) continue;
      const isErased =
        /^\{[^}]*\}\s*$/.test(names) &&
        names.replace(/[{}\s]/g, "") !== "" &&
        names
          .replace(/^\{|\}\s*$/g, "")
          .split(",")
          .every((name) => name.trim() === "" || name.trim().startsWith("type "));
      const target = join(dirname(file), from);
      if (!isErased && existsSync(join(root, target))) seen.add(target);
    }
  }
  return seen;
}
