import { type Declared, type Member, membersOf, Sources } from "./api-declarations.ts";

/**
 * docs/api.md, printed from the comments of the sources: every name that an entry of the package exports, with its
 * signature, its options and its example. Throws for a function without a comment, so that the page is complete.
 */

/** An entry of the package, and the module that says what it exports. */
export interface ApiEntry {
  readonly name: string;
  readonly module: string;
  readonly intro: string;
}

/** The entries, in the order of the page. A name that several of them export is described in the first. */
export const API_ENTRIES: readonly ApiEntry[] = [
  {
    name: "tare",
    module: "src/index.ts",
    intro:
      "Runs in browsers, workers and Node. For every command of `tare` there is a function of the same name: its options are the flags in camelCase, and what it returns is the object that `--json` prints. Text is an address (`https://…`, `s3://…`, with `::path/inside` for a file in a vault); for paths import the same names from `tare/node`. Every function takes `signal`, `onProgress` and `onNote`. Options that do not exist, and values that they cannot have, are refused before anything is opened (`usage/unknown-option`, `usage/option-value`, `usage/option-missing`). An abort rejects with `signal.reason` and leaves nothing half-made, whatever the call waits for, but for what the same call goes on with: the parts of an AEROSET, of `pull` and of `push`. What fails in an object that a program passes is an error of ours, with what was thrown as its `cause`: `source/caller` for a Source, a Sink, a folder or a password function, `source/stream` for a stream, and for handles the codes of files. What `onProgress`, `onNote`, `onFinding` and the work of a batch throw comes out as it is; what `onProgress` throws at the last event, when all is written, changes nothing. Passwords come from the option `password` alone: the variables `TARE_PASSWORD…` belong to the command line. Outputs are made with the folders that they need. Nothing writes to the console.",
  },
  {
    name: "tare/node",
    module: "src/platform/node/index.ts",
    intro:
      "All names of `tare`, where text may also be a path, `VAULT::path` or a folder, at native speed; and what exists only in Node. `createVault` and `repairVault` are those of `tare/vault`.",
  },
  {
    name: "tare/vault",
    module: "src/api/vault/index.ts",
    intro:
      "Vaults: `createVault`, `openVault`, `repairVault` and the class `Vault`. Reading works everywhere, changes in Node, where the vault was opened or made by a path. Each change is one commit; `batch` makes many changes one.",
  },
  {
    name: "tare/bytes",
    module: "src/bytes/index.ts",
    intro: "The Source kit, for those who build on it: where bytes come from, where they go, and layers between.",
  },
  {
    name: "tare/worker",
    module: "src/workers/index.ts",
    intro: "Threads: engines that compute on several, and the jobs that they do.",
  },
  {
    name: "tare/web",
    module: "src/platform/web/index.ts",
    intro:
      "All names of `tare`, for pages: `loadEmbedder` computes in a worker of its own. `tare/formats/<id>` (`aero aeroset apr embd gguf onnx safetensors aerovault aerovault2 aerovault1`) has `format`, to be given to the option `formats`, and `open`, which loads that one reader.",
  },
];

export function renderApi(root: string, entries: readonly ApiEntry[], generated: string): string {
  const sources = new Sources(root);
  const shown = new Set<string>();
  const contents: string[] = [];
  const sections = entries.map(({ name, module, intro }) => {
    const named = new Map(sources.exportsOf(module).map((found) => [found.declared.name, found]));
    const exported = [...named.values()].filter(({ declared }) => !shown.has(declared.name));
    for (const { declared } of exported) shown.add(declared.name);
    const functions = exported.filter(({ declared }) => ["function", "const"].includes(declared.kind));
    const classes = exported.filter(({ declared }) => declared.kind === "class");
    const types = exported.filter(({ declared }) => ["interface", "type"].includes(declared.kind));
    const all = exported.length === types.length ? [...named.values()] : [...functions, ...classes];
    const linked = all.filter(({ declared }) => !["interface", "type"].includes(declared.kind));
    contents.push(
      contentsRow(
        name,
        linked.map(({ declared }) => declared.name),
      ),
    );
    const parts = [...functions, ...classes].map(({ declared }) => renderDeclared(declared));
    const rows = types.map(({ declared }) => renderType(declared));
    const listed = rows.length === 0 ? [] : ["### Types", ...rows];
    return [`## \`${name}\``, intro, ...parts, ...listed].join("\n\n");
  });
  const page = sources.spelledOut(sections.join("\n\n")).replaceAll(/\bLimitOverrides\b/g, "Limits"); // what the entries call it
  refuseUnknown(page, shown, sources);
  return `# The library\n\n${generated}\n\n${contents.join("\n")}\n\n${page}\n`;
}

/** An entry of the page with links to what it has; its types are found by name. */
function contentsRow(entry: string, names: readonly string[]): string {
  const links = names.map((name) => `[${name}](#${name.toLowerCase()})`);
  return `- [\`${entry}\`](#${entry.replaceAll("/", "")}): ${links.join(" · ")}`;
}

/** What programs hand on as it is. Its parts are described where they are declared, for those who make one. */
const OPAQUE: ReadonlySet<string> = new Set([
  "Format",
  "Engine",
  "JobTable",
  "JobRequest",
  "JobResult",
  "JobContext",
  "GroupRunner",
]);

/** Throws if a signature names a type of ours that is not on the page. */
function refuseUnknown(page: string, shown: ReadonlySet<string>, sources: Sources): void {
  const parts = page.split(/^(?=####? )/m).filter((part) => !OPAQUE.has(/^#+ (\w+)/.exec(part)?.[1] ?? ""));
  const code = parts.flatMap((part) => [
    ...part.matchAll(/```ts\n((?:type|function|const) [^`]*)```|^- `([^`]*(?:`[^`]*)*?)`(?: —|$)/gm),
  ]);
  const names = code.flatMap(
    ([, block = "", member = ""]) => `${block} ${member}`.replace(/"[^"]*"/g, "").match(/(?<![.\w])[A-Z]\w+/g) ?? [],
  );
  const unknown = [...new Set(names)].filter((name) => !shown.has(name) && sources.isType(name));
  if (unknown.length > 0) throw new Error(`docs/api.md names types that it does not show: ${unknown.join(", ")}`);
}

function renderDeclared({ name, doc, head, kind, body }: Declared): string {
  const { text, examples } = splitDoc(doc);
  if (text === "") throw new Error(`"${name}" has no comment: docs/api.md prints it`);
  const example = examples.map((code) => `\`\`\`ts\n${code}\n\`\`\``);
  const members = kind === "class" ? membersOf(body).map(renderMember) : [];
  const group = kind === "const" ? membersOf(body).map(renderGroupMember) : [];
  return [`### ${name}`, `\`\`\`ts\n${head}\n\`\`\``, text, ...example, ...members, ...group].join("\n\n");
}

/** A function of a group such as `cache`, with its example. */
function renderGroupMember({ signature, doc }: Member): string {
  const { text, examples } = splitDoc(doc);
  const example = examples.map((code) => `\`\`\`ts\n${code}\n\`\`\``);
  return [`- \`${signature}\`${text === "" ? "" : ` — ${text}`}`, ...example].join("\n\n");
}

function renderMember({ signature, doc }: Member): string {
  const { text } = splitDoc(doc);
  return `- \`${signature}\`${text === "" ? "" : ` — ${text}`}`;
}

function renderType({ name, doc, head, body, kind }: Declared): string {
  const { text } = splitDoc(doc);
  const title = `#### ${name}`;
  if (kind === "type") return [title, `\`\`\`ts\n${head}\n\`\`\``, ...(text === "" ? [] : [text])].join("\n\n");
  const base = /\bextends\s+(.+)$/s.exec(head)?.[1]?.replace(/\s+/g, " ");
  const lines = membersOf(body).map(renderMember);
  const above = base === undefined ? [] : [`All of \`${base}\`${lines.length === 0 ? "." : ", and:"}`];
  return [title, ...(text === "" ? [] : [text]), ...above, ...(lines.length === 0 ? [] : [lines.join("\n")])].join(
    "\n\n",
  );
}

function splitDoc(doc: string): { readonly text: string; readonly examples: readonly string[] } {
  const [text = "", ...examples] = doc.split(/^@example\s*$/m);
  const flat = text.trim().replace(/\s*\n\s*(?=[^\s-])/g, " ");
  return { text: flat, examples: examples.map((code) => code.trim()) };
}
