import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize, relative } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * Checks the one rule of docs/ARCHITECTURE.md: import only from a lower layer or your own folder. Also checks that
 * third-party code and Node's own modules are imported only in the folders that may.
 */

/** Folder → layer; siblings on one layer do not know each other. */
const LAYERS: readonly (readonly [folder: string, layer: number])[] = [
  ["src/base", 0],
  ["src/catalog", 0.5],
  ["src/bytes", 1],
  ["src/struct", 1],
  ["src/primitives", 1],
  ["src/kernels", 1],
  ["src/model", 2],
  ["src/formats", 3],
  ["src/operations", 4],
  ["src/embedding", 4],
  ["src/api", 4.8],
  ["src/workers", 5],
  ["src/platform/node", 5],
  ["src/platform/web", 5],
  ["cli", 6],
  ["viewer", 6],
];

/** Declared exceptions: [importer prefix, imported prefix, why]. */
const EXCEPTIONS: readonly (readonly [string, string, string])[] = [
  ["src/primitives/", "src/kernels/", "primitives wrap the compiled kernels"],
  ["src/platform/", "src/workers/", "a platform supplies workers to the pool and runs its jobs"],
  ["src/platform/", "src/open", "a platform's open() adds paths or files to the portable one"],
  ["src/platform/", "src/index.ts", "a platform's entry re-exports the portable API"],
  ["src/formats/aeroset/", "src/formats/aero/", "the parts and the index of a set are AERO files"],
  [
    "src/formats/aerovault2/",
    "src/formats/aerovault/",
    "versions 2 and 3 share key slots and the reading of manifests",
  ],
  ["src/formats/aerovault1/", "src/formats/aerovault/", "every version asks for its password in the same words"],
  ["src/catalog/index.ts", "src/formats/foreign.ts", "what is not ours has its texts beside its signatures"],
  ["src/formats/registry.ts", "src/formats/", "the registry is the one list of formats"],
];

/** Operations that are about one format. The others know formats only through the registry and `Format`. */
const FORMAT_OPERATIONS: readonly string[] = [
  "src/operations/vault/",
  "src/operations/correct/",
  "src/operations/correct.ts",
];

/** Files at the root of src compose the layers below them. */
const COMPOSERS = new Map([
  ["src/open.ts", 4.5],
  ["src/index.ts", 5.5],
]);

/** What the package exports of a format: its `open` takes every input, so it is above the verbs. */
const FORMAT_LIBRARY = /^src\/formats\/[^/]+\/library\.ts$/;
const FORMAT_LIBRARY_LAYER = 5.2;

/**
 * Files that `import()` may name. Bundles are cut there, so each boundary is chosen on purpose, never by the length of
 * a file. Everything else is imported statically.
 */
const ENTRIES: readonly (readonly [target: RegExp, why: string])[] = [
  [/^src\/formats\/[^/]+\/(?:[^/]+\/)?(?:index|read|verify|write)\.ts$/, "the entries of a format, or of its layouts"],
  [
    /^src\/bytes\/http\/index\.ts$/,
    "addresses: src/open.ts imports them as usual, the viewer once a page is given one",
  ],
  [/^src\/formats\/explain\.ts$/, "what is said where something is wrong: signatures of what is not ours, for example"],
  [/^src\/primitives\//, "tiers of primitives"],
  [/^src\/kernels\//, "compiled kernels, which tiers load"],
  [/^src\/operations\/[^/]+\.ts$/, "verbs, which the library loads one by one"],
  [/^src\/api\/(?:[^/]+\/)?[^/]+\.ts$/, "the same, as users call them, and what a runtime does for them"],
  [/^src\/platform\//, "what a platform adds to the library, loaded on request"],
  [/^cli\/commands\//, "commands"],
  [/^cli\/main\.ts$/, "the program; start.ts says what happens where not even that can be read"],
  [/^viewer\/(?:views|pages)\//, "pages"],
  [/^src\/embedding\/embedder\.ts$/, "tokenizer, encoder and kernels, loaded for embedding"],
  [/\/worker\.ts$/, "the part of a job that a worker loads when it is given one"],
];

const THIRD_PARTY = ["src/primitives/", "src/platform/", "cli/", "viewer/"];
const NODE_MODULES_OF_NODE = ["src/platform/node/", "cli/"];

const program = fileURLToPath(import.meta.url);
if (process.argv[1] === program) {
  const problems = checkLayers(join(dirname(program), ".."));
  for (const problem of problems) console.error(problem);
  if (problems.length > 0) {
    console.error(`${problems.length} imports break the layers of docs/ARCHITECTURE.md`);
    process.exit(1);
  }
  console.log("layers hold");
}

/** A sentence for each import of the tree at `root` that breaks a rule. */
export function checkLayers(root: string): string[] {
  return ["src", "cli", "viewer"]
    .flatMap((folder) => listFiles(root, folder))
    .filter((file) => !file.endsWith(".test.ts") && !file.endsWith(".as.ts"))
    .flatMap((file) => {
      const text = readFileSync(join(root, file), "utf8");
      const imports = importsOf(text).map((specifier) => checkImport(file, specifier));
      const lazy = lazyImportsOf(text).map((specifier) => checkEntry(file, specifier));
      return [...imports, ...lazy].filter((problem) => problem !== undefined);
    });
}

/** What is wrong with an import, if anything. */
function checkImport(file: string, specifier: string): string | undefined {
  if (specifier.startsWith("node:")) {
    const isAllowed = NODE_MODULES_OF_NODE.some((prefix) => file.startsWith(prefix));
    return isAllowed ? undefined : `${file}: ${specifier} outside the Node platform`;
  }
  if (!specifier.startsWith(".")) {
    const isAllowed = THIRD_PARTY.some((prefix) => file.startsWith(prefix));
    return isAllowed ? undefined : `${file}: third-party "${specifier}" in the core`;
  }
  const target = normalize(join(dirname(file), specifier));
  if (EXCEPTIONS.some(([from, to]) => file.startsWith(from) && target.startsWith(to))) return undefined;
  if (dirname(target) === dirname(file)) return undefined;
  const from = placeOf(file);
  const to = placeOf(target);
  if (from === undefined || to === undefined) return `${file}: ${target} belongs to no layer`;
  if (from.folder !== to.folder && to.layer >= from.layer) return `${file}: imports ${target}, which is not below it`;
  if (isOtherFormat(file, target)) return `${file}: imports another format, ${target}`;
  return namesFormat(file, target) ? `${file}: names a format, ${target}` : undefined;
}

function checkEntry(file: string, specifier: string): string | undefined {
  if (!specifier.startsWith(".")) return undefined;
  const target = normalize(join(dirname(file), specifier));
  if (ENTRIES.some(([pattern]) => pattern.test(target))) return undefined;
  return `${file}: import() of ${target}, which is no entry: import it as usual, or move the boundary`;
}

/** Formats share a layer and a folder, but never each other's code. All may use the files beside their folders. */
function isOtherFormat(file: string, target: string): boolean {
  const own = /^src\/formats\/([^/]+)\//.exec(file)?.[1];
  const other = /^src\/formats\/([^/]+)\//.exec(target)?.[1];
  return own !== undefined && other !== undefined && own !== other;
}

function namesFormat(file: string, target: string): boolean {
  if (!file.startsWith("src/operations/") || FORMAT_OPERATIONS.some((prefix) => file.startsWith(prefix))) return false;
  return /^src\/formats\/[^/]+\//.test(target);
}

function placeOf(file: string): { readonly folder: string; readonly layer: number } | undefined {
  const composer = COMPOSERS.get(file);
  if (composer !== undefined) return { folder: file, layer: composer };
  if (FORMAT_LIBRARY.test(file)) return { folder: file, layer: FORMAT_LIBRARY_LAYER };
  const entry = LAYERS.find(([folder]) => file.startsWith(`${folder}/`));
  return entry === undefined ? undefined : { folder: entry[0], layer: entry[1] };
}

/** Static, type-only, re-exporting and dynamic imports. The formatter keeps them in these forms. */
function importsOf(text: string): string[] {
  const pattern =
    /(?:^|\n)\s*(?:import|export)\b[^"'`;]*?from\s*"([^"]+)"|\bimport\(\s*"([^"]+)"\s*(?:,[^)]*)?\)|(?:^|\n)\s*import\s*"([^"]+)"/g;
  return [...withoutComments(text).matchAll(pattern)].map((match) => match[1] ?? match[2] ?? match[3] ?? "");
}

/**
 * Each `import()` that runs. Those in types are erased: they follow `typeof`, or a name follows them, which is not a
 * method of a promise.
 */
function lazyImportsOf(text: string): string[] {
  const pattern = /(?<!\btypeof\s+)\bimport\(\s*"([^"]+)"\s*(?:,[^)]*)?\)(?!\s*\.\s*(?!(?:then|catch|finally)\b)\w)/g;
  return [...withoutComments(text).matchAll(pattern)].map((match) => match[1] ?? "");
}

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/^\s*\/\/.*$/gm, "");
}

function listFiles(root: string, folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .filter((file) => !file.includes("/generated/"));
}
