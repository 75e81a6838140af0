import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize, relative } from "node:path";

/**
 * Keeps the one rule of docs/ARCHITECTURE.md: import only from a lower layer or your own folder. Also keeps
 * third-party code and Node's own modules where they belong.
 */

const root = join(import.meta.dirname ?? new URL(".", import.meta.url).pathname, "..");

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

/** Operations that are about one format; the others know formats by the registry and by what `Format` says. */
const FORMAT_OPERATIONS: readonly string[] = [
  "src/operations/vault/",
  "src/operations/correct/",
  "src/operations/correct.ts",
];

/** Files at the root of src compose the layers below them. */
const COMPOSERS = new Map([
  ["src/open.ts", 4.5],
  ["src/embed.ts", 4.7],
  ["src/index.ts", 5.5],
]);

const THIRD_PARTY = ["src/primitives/", "src/platform/", "cli/", "viewer/"];
const NODE_MODULES_OF_NODE = ["src/platform/node/", "cli/"];

const problems: string[] = [];

for (const file of [...listFiles("src"), ...listFiles("cli"), ...listFiles("viewer")]) {
  if (file.endsWith(".test.ts") || file.endsWith(".as.ts")) continue;
  for (const specifier of importsOf(readFileSync(join(root, file), "utf8"))) checkImport(file, specifier);
}

if (problems.length > 0) {
  console.error(problems.join("\n"));
  console.error(`${problems.length} imports break the layers of docs/ARCHITECTURE.md`);
  process.exit(1);
}
console.log("layers hold");

function checkImport(file: string, specifier: string): void {
  if (specifier.startsWith("node:")) {
    if (!NODE_MODULES_OF_NODE.some((prefix) => file.startsWith(prefix)))
      problems.push(`${file}: ${specifier} outside the Node platform`);
    return;
  }
  if (!specifier.startsWith(".")) {
    if (!THIRD_PARTY.some((prefix) => file.startsWith(prefix)))
      problems.push(`${file}: third-party "${specifier}" in the core`);
    return;
  }
  const target = normalize(join(dirname(file), specifier));
  if (EXCEPTIONS.some(([from, to]) => file.startsWith(from) && target.startsWith(to))) return;
  if (dirname(target) === dirname(file)) return;
  const from = placeOf(file);
  const to = placeOf(target);
  if (from === undefined || to === undefined) problems.push(`${file}: ${target} belongs to no layer`);
  else if (from.folder !== to.folder && to.layer >= from.layer)
    problems.push(`${file}: imports ${target}, which is not below it`);
  else if (isOtherFormat(file, target)) problems.push(`${file}: imports another format, ${target}`);
  else if (namesFormat(file, target)) problems.push(`${file}: names a format, ${target}`);
}

/** Formats share a layer and a folder, but never each other's code; files beside the folders are shared by all. */
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
  const entry = LAYERS.find(([folder]) => file.startsWith(`${folder}/`));
  return entry === undefined ? undefined : { folder: entry[0], layer: entry[1] };
}

/** Static, type-only, re-exporting and dynamic imports; the formatter keeps them in these shapes. */
function importsOf(text: string): string[] {
  const code = text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/^\s*\/\/.*$/gm, "");
  const pattern =
    /(?:^|\n)\s*(?:import|export)\b[^"'`;]*?from\s*"([^"]+)"|\bimport\(\s*"([^"]+)"\s*\)|(?:^|\n)\s*import\s*"([^"]+)"/g;
  return [...code.matchAll(pattern)].map((match) => match[1] ?? match[2] ?? match[3] ?? "");
}

function listFiles(folder: string): string[] {
  try {
    return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name))
      .map((entry) => relative(root, join(entry.parentPath, entry.name)))
      .filter((file) => !file.includes("/generated/"));
  } catch {
    return [];
  }
}
