import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";

/** What the sources of the library declare, for `docs/api.md`: found in their text, since no compiler gives the comments. */

export interface Declared {
  readonly name: string;
  readonly kind: "function" | "class" | "interface" | "type" | "const";
  readonly doc: string;
  /** The declaration up to its body. */
  readonly head: string;
  /** Between the braces of an interface or class. */
  readonly body: string;
}

export interface Member {
  readonly signature: string;
  readonly doc: string;
}

/** The members of an interface or class, without private ones. */
export function membersOf(body: string): readonly Member[] {
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
export class Sources {
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

  /** Types that are made of a list or a table in the code, as the names themselves. */
  spelledOut(page: string): string {
    return page.replace(/\(typeof ([A-Z_]+)\)\[number\]|keyof typeof ([A-Z_]+)/g, (whole, list = "", table = "") => {
      const names = list === "" ? this.#keysOf(table) : this.#itemsOf(list);
      return names.length === 0 ? whole : names.map((name) => `"${name}"`).join(" | ");
    });
  }

  #itemsOf(list: string): readonly string[] {
    const text = this.#constant(list, /\[([^\]]*)\]/);
    return [...text.matchAll(/"([^"]+)"/g)].map(([, name = ""]) => name);
  }

  #keysOf(table: string): readonly string[] {
    const text = this.#constant(table, /\{([\s\S]*?)\} as const/);
    return [...text.replace(/\{[^{}]*\}|\([^()]*\)/g, "").matchAll(/(?:^|[,{]|\n)\s*(\w+):/g)].map(
      ([, name = ""]) => name,
    );
  }

  /** What is between the brackets of a constant, wherever it is declared. */
  #constant(name: string, inner: RegExp): string {
    const start = `const ${name} = `;
    const file = this.#files.find((one) => this.text(one).includes(start));
    const text = file === undefined ? "" : this.text(file);
    return inner.exec(text.slice(text.indexOf(start)))?.[1] ?? "";
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
      if (first.signature.startsWith(`${name}: {`)) return groupOf(name, first, text.slice(start));
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

/** A group of verbs such as `cache`: the functions are listed below its name. */
function groupOf(name: string, { doc }: Member, text: string): Declared {
  const found = new RegExp(`^  (?:readonly )?${name}: \\{`, "m").exec(text);
  const open = (found?.index ?? 0) + (found?.[0].length ?? 1) - 1;
  const body = text.slice(open + 1, open + closing(text.slice(open)));
  const names = membersOf(body).map(({ signature }) => /^\w+/.exec(signature)?.[0] ?? "");
  return { name, kind: "const", doc, head: `const ${name}: { ${names.join(", ")} }`, body };
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
  if (kind === "type") return { head: plainType(text.slice(0, endOfType(text) + 1)), body: "" };
  if (kind === "const")
    return { head: plain(text.slice(0, /\s=[^>]/.exec(text)?.index ?? text.indexOf("\n"))), body: "" };
  const open = bodyOf(text);
  return { head: plain(text.slice(0, open)), body: "" };
}

/** The semicolon that ends the declaration of a type, outside of all braces. */
function endOfType(text: string): number {
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    if (text[i] === "{") depth++;
    if (text[i] === "}") depth--;
    if (text[i] === ";" && depth === 0) return i;
  }
  return text.length;
}

/** One line without comments; of several alternatives with members, a line each. */
function plainType(text: string): string {
  const bare = text.replace(/^export /, "").replace(/\s*\/\*\*[\s\S]*?\*\//g, "");
  const line = bare.replace(/\s+/g, " ").replace(/= \| /, "= ").trim();
  return line.includes("{") ? line.replace(/(?<=[=}]) (?:\| )?(?=\{)/g, "\n  | ") : line;
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
