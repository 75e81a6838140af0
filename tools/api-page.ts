import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";

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

interface Declared {
  readonly name: string;
  readonly kind: "function" | "class" | "interface" | "type" | "const";
  readonly doc: string;
  /** The declaration up to its body. */
  readonly head: string;
  /** Between the braces of an interface or class. */
  readonly body: string;
}

export function renderApi(root: string, entries: readonly ApiEntry[], generated: string): string {
  const sources = new Sources(root);
  const shown = new Set<string>();
  const sections = entries.map(({ name, module, intro }) => {
    const named = new Map(sources.exportsOf(module).map((found) => [found.declared.name, found]));
    const exported = [...named.values()].filter(({ declared }) => !shown.has(declared.name));
    for (const { declared } of exported) shown.add(declared.name);
    const functions = exported.filter(({ declared }) => ["function", "const"].includes(declared.kind));
    const classes = exported.filter(({ declared }) => declared.kind === "class");
    const types = exported.filter(({ declared }) => ["interface", "type"].includes(declared.kind));
    const parts = [...functions, ...classes].map(({ declared }) => renderDeclared(declared));
    const rows = types.map(({ declared }) => renderType(declared));
    const listed = rows.length === 0 ? [] : ["### Types", ...rows];
    return [`## \`${name}\``, intro, ...parts, ...listed].join("\n\n");
  });
  const page = sections.join("\n\n").replaceAll(/\bLimitOverrides\b/g, "Limits"); // what the entries call it
  refuseUnknown(page, shown, sources);
  return `# The library\n\n${generated}\n\n${page}\n`;
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
  return [`### ${name}`, `\`\`\`ts\n${head}\n\`\`\``, text, ...example, ...members].join("\n\n");
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

interface Member {
  readonly signature: string;
  readonly doc: string;
}

/** The members of an interface or class, without private ones. */
function membersOf(body: string): readonly Member[] {
  const members: Member[] = [];
  let doc = "";
  for (let rest = body; ; ) {
    rest = rest.replace(/^[\s;]+/, "");
    if (rest === "") return members;
    const comment = /^\/\*\*([\s\S]*?)\*\//.exec(rest) ?? /^\/\/[^\n]*/.exec(rest);
    if (comment !== null) {
      doc = comment[1] === undefined ? doc : plainDoc(comment[1]);
      rest = rest.slice(comment[0].length);
      continue;
    }
    const end = endOfMember(rest);
    const text = rest.slice(0, end).trim();
    rest = rest.slice(end);
    // A method of a class has a body, which does not belong to its signature.
    if (rest.startsWith("{")) rest = rest.slice(closing(rest) + 1);
    const isOwn = !/^(?:(?:readonly|async|get|set)\s+)*#|^(?:private|static|constructor)\b/.test(text);
    if (isOwn && text !== "") members.push({ signature: text.replace(/\s+/g, " ").replace(/^readonly\s+/, ""), doc });
    doc = "";
  }
}

/** Where a member ends: at a semicolon, or at the body of a method, outside of all brackets. */
function endOfMember(text: string): number {
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    const character = text[i] as string;
    const isBody =
      character === "{" &&
      depth === 0 &&
      /\)\s*(?::[^;{]*)?$/.test(text.slice(0, i)) &&
      !/:\s*$/.test(text.slice(0, i));
    if (isBody) return i;
    if ("([{<".includes(character)) depth++;
    if (")]}".includes(character) || (character === ">" && text[i - 1] !== "=")) depth--;
    if (character === ";" && depth === 0) return i;
    if (
      character === "\n" &&
      depth === 0 &&
      /^\s*(?:\/\*\*|readonly|get |async |#|\})/.test(text.slice(i + 1)) &&
      !/[:=|&,]\s*$/.test(text.slice(0, i))
    )
      return i;
  }
  return text.length;
}

function plainDoc(comment: string): string {
  return comment.replace(/^\s*\*? ?/gm, "").trim();
}

/** The index of the brace that closes the first one. */
function closing(text: string): number {
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    if (text[i] === "{") depth++;
    if (text[i] === "}" && --depth === 0) return i;
  }
  return text.length;
}

/** The interfaces that describe verbs, wherever they are declared. */
const VERBS = ["Verbs", "NodeVerbs"];

/** The sources of the library, and what they declare. */
class Sources {
  readonly #root: string;
  readonly #texts = new Map<string, string>();
  readonly #files: readonly string[];
  #described: readonly { readonly text: string; readonly start: number }[] | undefined;

  constructor(root: string) {
    this.#root = root;
    this.#files = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts"))
      .map((name) => join("src", name));
  }

  text(file: string): string {
    let text = this.#texts.get(file);
    if (text === undefined) {
      text = existsSync(join(this.#root, file)) ? readFileSync(join(this.#root, file), "utf8") : "";
      this.#texts.set(file, text);
    }
    return text;
  }

  /** Whether a file of the library exports a type of this name. */
  isType(name: string): boolean {
    const pattern = new RegExp(`^export (?:abstract )?(?:interface|type|class) ${name}\\b`, "m");
    return this.#files.some((file) => pattern.test(this.text(file)));
  }

  /** What a module exports, where each is declared. Verbs are declared in `interface Verbs`. */
  exportsOf(module: string): readonly { readonly declared: Declared }[] {
    const text = this.text(module);
    const found: { declared: Declared }[] = [];
    for (const [, list = "", from = ""] of text.matchAll(/export (?:type )?\{([^}]*)\} from "([^"]+)"/g)) {
      const file = normalize(join(dirname(module), from));
      for (const item of list.split(",")) {
        const [name = "", alias] = item
          .replace(/\btype\b/, "")
          .trim()
          .split(/\s+as\s+/);
        if (name !== "") found.push({ declared: this.#verb(name) ?? this.#declared(file, name, alias ?? name) });
      }
    }
    for (const [, list = ""] of text.matchAll(/export const \{([^}]*)\}/g)) {
      for (const name of list.split(",").map((item) => item.trim()))
        found.push(
          ...[name === "" ? undefined : this.#verb(name)].flatMap((declared) =>
            declared === undefined ? [] : { declared },
          ),
        );
    }
    for (const [, from = ""] of text.matchAll(/export (?:type )?\* from "([^"]+)"/g))
      found.push(...this.exportsOf(normalize(join(dirname(module), from))));
    for (const [, name = ""] of text.matchAll(
      /^export (?:declare )?(?:async )?(?:function\*?|const|class|interface|type) (\w+)/gm,
    ))
      found.push({ declared: this.#declared(module, name, name) });
    return found;
  }

  /** A method or a group of one of the interfaces of verbs; undefined for what is none. */
  #verb(name: string): Declared | undefined {
    for (const { text, start } of this.#verbs()) {
      const found = membersOf(text.slice(text.indexOf("{", start) + 1, start + closing(text.slice(start))));
      const own = found.filter(({ signature }) => new RegExp(`^${name}[(<:]`).test(signature));
      const [first] = own;
      if (first === undefined) continue;
      const head = own.map(({ signature }) =>
        signature.startsWith(`${name}:`) ? `const ${signature}` : `function ${signature}`,
      );
      return { name, kind: "function", doc: first.doc, head: head.join("\n"), body: "" };
    }
    return undefined;
  }

  /** The interfaces of verbs: the texts in which they are declared, and where they begin. */
  #verbs(): readonly { readonly text: string; readonly start: number }[] {
    this.#described ??= VERBS.flatMap((title) =>
      this.#files.flatMap((file) => {
        const text = this.text(file);
        const start = text.indexOf(`export interface ${title} {`);
        return start < 0 ? [] : [{ text, start }];
      }),
    );
    return this.#described;
  }

  #declared(file: string, name: string, shown: string): Declared {
    const text = this.text(file);
    const pattern = new RegExp(
      `(?:/\\*\\*((?:(?!\\*/)[\\s\\S])*?)\\*/\\s*\\n)?^export (?:declare )?(?:abstract )?(?:async )?(function\\*?|class|interface|type|const) ${name}\\b`,
      "m",
    );
    const match = pattern.exec(text);
    if (match === null) {
      // Declared elsewhere, and exported again from here.
      for (const [, list = "", from = ""] of text.matchAll(/(?:export|import) (?:type )?\{([^}]*)\} from "([^"]+)"/g)) {
        for (const item of list.split(",")) {
          const [own = "", alias] = item
            .replace(/\btype\b/, "")
            .trim()
            .split(/\s+as\s+/);
          if ((alias ?? own) === name) return this.#declared(normalize(join(dirname(file), from)), own, shown);
        }
      }
      throw new Error(`"${name}" is not declared in ${file}`);
    }
    const [whole, doc = "", word = ""] = match;
    const start = match.index + whole.lastIndexOf("export ");
    const rest = text.slice(start);
    const kind = word.startsWith("function") ? "function" : (word as Declared["kind"]);
    const { head, body } = cut(rest, kind);
    return { name: shown, kind, doc: plainDoc(doc), head, body };
  }
}

/** Splits a declaration into what comes before its body, and the body. */
function cut(text: string, kind: Declared["kind"]): { readonly head: string; readonly body: string } {
  const plain = (head: string): string =>
    head
      .replace(/^export (?:async )?/, "")
      .replace(/\s*\n\s*/g, " ")
      .trim();
  if (kind === "interface" || kind === "class") {
    const open =
      text.indexOf(" {\n") < 0
        ? text.indexOf("{")
        : Math.min(text.indexOf("{}") < 0 ? Number.POSITIVE_INFINITY : text.indexOf("{}"), text.indexOf(" {\n") + 1);
    const body = text.slice(open);
    return { head: plain(text.slice(0, open)), body: body.slice(1, closing(body)) };
  }
  if (kind === "type") return { head: plain(text.slice(0, text.indexOf(";\n") + 1)), body: "" };
  if (kind === "const")
    return { head: plain(text.slice(0, /\s=[^>]/.exec(text)?.index ?? text.indexOf("\n"))), body: "" };
  const open = bodyOf(text);
  return { head: plain(text.slice(0, open)), body: "" };
}

/** Where the body of a function begins. */
function bodyOf(text: string): number {
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    const character = text[i] as string;
    if ("(<[".includes(character)) depth++;
    if (")]".includes(character) || (character === ">" && text[i - 1] !== "=")) depth--;
    if (character === "{" && depth === 0 && /[)>\w\]]\s$/.test(text.slice(0, i)) && !/:\s$/.test(text.slice(0, i)))
      return i;
  }
  return text.length;
}
