import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** Walks declaration files, to find what a program cannot name although a signature has it. */

interface Declared {
  readonly file: string;
  readonly name: string;
}

interface Module {
  /** What each name declares here. */
  readonly declared: ReadonlyMap<string, string>;
  /** Names that come from other files: imported, or exported again. */
  readonly others: ReadonlyMap<string, Declared>;
  readonly exported: ReadonlyMap<string, Declared>;
  /** Files of which everything is exported again. */
  readonly whole: readonly string[];
}

const modules = new Map<string, Module>();

function moduleAt(file: string): Module {
  const known = modules.get(file);
  if (known !== undefined) return known;
  const text = existsSync(file) ? readFileSync(file, "utf8").replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, "") : "";
  const declared = new Map<string, string>();
  for (const part of text.split(/^(?=(?:export |declare |interface |type |import ))/m)) {
    const name = /^(?:export )?(?:declare )?(?:abstract )?(?:interface|type|class|function|const) (\w+)/.exec(
      part,
    )?.[1];
    if (name !== undefined) declared.set(name, `${declared.get(name) ?? ""}${part}`);
  }
  const others = new Map<string, Declared>();
  const exported = new Map<string, Declared>();
  for (const [, verb, list = "", from] of text.matchAll(
    /^(import|export) (?:type )?\{([^}]*)\}(?: from "([^"]+)")?/gm,
  )) {
    for (const item of list.split(",")) {
      const [name = "", alias = name] = item
        .replace(/\btype\b/, "")
        .trim()
        .split(/\s+as\s+/);
      if (name === "") continue;
      const target = { file: from === undefined ? file : fileOf(file, from), name };
      if (verb === "import") others.set(alias, target);
      else exported.set(alias, target);
    }
  }
  for (const name of declared.keys()) {
    if (new RegExp(`^export .*\\b${name}\\b`, "m").test(declared.get(name) ?? "")) exported.set(name, { file, name });
  }
  const whole = [...text.matchAll(/^export (?:type )?\* from "([^"]+)"/gm)].map(([, from = ""]) => fileOf(file, from));
  const found = { declared, others, exported, whole };
  modules.set(file, found);
  return found;
}

function fileOf(file: string, from: string): string {
  return from.startsWith(".") ? join(dirname(file), from.replace(/\.[jt]s$/, ".d.ts")) : from;
}

/** Where a name that a file uses is declared; undefined for names of the language and of other packages. */
function resolve(file: string, name: string): Declared | undefined {
  const { declared, others, exported, whole } = moduleAt(file);
  if (declared.has(name)) return { file, name };
  const next = others.get(name) ?? exported.get(name);
  if (next !== undefined && (next.file !== file || next.name !== name)) return resolve(next.file, next.name);
  for (const other of whole) {
    const found = exportsOf(other).get(name);
    if (found !== undefined) return found;
  }
  return undefined;
}

function exportsOf(file: string): ReadonlyMap<string, Declared> {
  const { exported, whole } = moduleAt(file);
  const all = new Map<string, Declared>();
  for (const other of whole) for (const [name, target] of exportsOf(other)) all.set(name, target);
  for (const [name, target] of exported) {
    const found = resolve(target.file, target.name);
    if (found !== undefined) all.set(name, found);
  }
  return all;
}

/** The types that a declaration names. */
function namedBy({ file, name }: Declared): readonly Declared[] {
  const whole = (moduleAt(file).declared.get(name) ?? "").replace(/^\s+constructor\([^;]*;/gm, "");
  const text = whole.replace(/"[^"\n]*"(?!\))/g, '""');
  const elsewhere = [...text.matchAll(/import\("([^"]+)"\)\.(\w+)/g)].map(([, from = "", one = ""]) =>
    resolve(fileOf(file, from), one),
  );
  const here = [...text.matchAll(/(?<![.\w"])[A-Z]\w*/g)].map(([one]) => resolve(file, one));
  return [...elsewhere, ...here].filter((found) => found !== undefined && isType(found)) as Declared[];
}

function isType({ file, name }: Declared): boolean {
  return /^(?:export )?(?:declare )?(?:abstract )?(?:interface|type|class) /.test(
    moduleAt(file).declared.get(name) ?? "",
  );
}

/** Programs hand these on as they are: what is inside concerns those who make them. */
const OPAQUE: ReadonlySet<string> = new Set(["Engine", "Format", "JobTable", "GroupRunner"]);

/** The interfaces that describe verbs: their members are exported one by one. */
function isList({ name }: Declared): boolean {
  return name === "Verbs" || name === "NodeVerbs";
}

/** Types that occur in what an entry exports, and in those types, and cannot be imported from it: "Name (in Other)". */
export function unnamedTypes(entry: string): readonly string[] {
  const key = ({ file, name }: Declared): string => `${file} ${name}`;
  const roots = [...exportsOf(entry).values()];
  const seen = new Set(roots.map(key));
  const missing: string[] = [];
  const queue = [...roots];
  for (const from of queue) {
    if (OPAQUE.has(from.name)) continue;
    for (const found of namedBy(from)) {
      if (seen.has(key(found)) || isList(found)) continue;
      seen.add(key(found));
      missing.push(`${found.name} (in ${from.name}) ${found.file}`);
      queue.push(found);
    }
  }
  return missing;
}
