import type { Bytes } from "../../../../base/bytes.ts";
import { decodeUtf8 } from "../../../../base/text.ts";

/** The name of a property: a namespace, empty for none, and a name in it. */
export interface PropertyName {
  readonly namespace: string;
  readonly local: string;
}

/** What a PROPFIND asks for (RFC 4918 §14.20). */
export type PropertyQuery =
  /** Every property that there is, and these. */
  | { readonly kind: "all"; readonly also: readonly PropertyName[] }
  | { readonly kind: "names" }
  | { readonly kind: "named"; readonly names: readonly PropertyName[] };

export const DAV_NAMESPACE = "DAV:";

/** A request that cannot be answered, with the reason for its sender. */
export class BadRequest extends Error {}

/** Names in a request are repeated for every member of a folder, so there must not be many. */
const MAX_NAMES = 100;
const MAX_NAME_CHARACTERS = 8192;
/** Elements in elements; no request needs more than three levels. */
const MAX_DEPTH = 16;

/** Reads the body of a PROPFIND; an empty one asks for everything. Throws a BadRequest. */
export function parsePropertyQuery(body: Bytes): PropertyQuery {
  if (body.byteLength === 0) return { kind: "all", also: [] };
  const text = decodeUtf8(body)?.replace(/^\ufeff/, "");
  if (text === undefined) throw new BadRequest("the XML must be UTF-8");
  const collector = new QueryCollector();
  new XmlReader(text, collector).read();
  return collector.result();
}

/** Gets elements in the order of the document. */
interface ElementSink {
  /** `depth` is 0 for the root. */
  open(name: PropertyName, depth: number): void;
}

/** Makes a query of the elements that mean something; others are ignored (RFC 4918 §17). */
class QueryCollector implements ElementSink {
  readonly #kinds = new Set<string>();
  readonly #names: PropertyName[] = [];
  #characters = 0;
  /** The child of the root that is open. */
  #child = "";

  open(name: PropertyName, depth: number): void {
    const isDav = name.namespace === DAV_NAMESPACE;
    if (depth === 0 && !(isDav && name.local === "propfind")) {
      throw new BadRequest("the root element must be DAV: propfind");
    }
    if (depth === 1) {
      this.#child = isDav ? name.local : "";
      if (["allprop", "propname", "prop"].includes(this.#child)) this.#kinds.add(this.#child);
    }
    if (depth !== 2 || !["prop", "include"].includes(this.#child)) return;
    this.#characters += name.namespace.length + name.local.length;
    if (this.#names.push(name) > MAX_NAMES || this.#characters > MAX_NAME_CHARACTERS) {
      throw new BadRequest(`it must name at most ${MAX_NAMES} properties, of ${MAX_NAME_CHARACTERS} characters`);
    }
  }

  result(): PropertyQuery {
    const [kind, another] = this.#kinds;
    if (kind === undefined || another !== undefined) {
      throw new BadRequest("propfind must have one of allprop, propname and prop");
    }
    if (kind === "propname") return { kind: "names" };
    return kind === "allprop" ? { kind: "all", also: this.#names } : { kind: "named", names: this.#names };
  }
}

/** Namespaces by their prefixes; an element's own, then those of the elements around it. */
interface Scope {
  readonly own: ReadonlyMap<string, string>;
  readonly around: Scope | undefined;
}

const XML_NAMESPACE = "http://www.w3.org/XML/1998/namespace";
const OUTERMOST: Scope = {
  own: new Map([
    ["", ""],
    ["xml", XML_NAMESPACE],
  ]),
  around: undefined,
};

// Names of XML 1.0, without those above U+FFFF. A colon only separates a prefix.
const NAME_START =
  "A-Z_a-z\\u00c0-\\u00d6\\u00d8-\\u00f6\\u00f8-\\u02ff\\u0370-\\u037d\\u037f-\\u1fff\\u200c\\u200d\\u2070-\\u218f\\u2c00-\\u2fef\\u3001-\\ud7ff\\uf900-\\ufdcf\\ufdf0-\\ufffd";
const NAME = `[${NAME_START}][${NAME_START}\\-.0-9\\u00b7\\u0300-\\u036f\\u203f\\u2040]*`;
const QUALIFIED = `(?:(${NAME}):)?(${NAME})`;
const TAG = new RegExp(`<(/?)${QUALIFIED}`, "y");
const ATTRIBUTE = new RegExp(`[ \\t\\r\\n]+${QUALIFIED}[ \\t\\r\\n]*=[ \\t\\r\\n]*(?:"([^"<]*)"|'([^'<]*)')`, "y");
const TAG_END = /[ \t\r\n]*(\/?)>/y;
const TEXT = /[^<]+/y;
const DECLARATION =
  /^<\?xml[ \t\r\n]+version=(?:"1\.\d+"|'1\.\d+')(?:[ \t\r\n]+encoding=(?:"(?:utf-8|us-ascii)"|'(?:utf-8|us-ascii)'))?(?:[ \t\r\n]+standalone=(?:"(?:yes|no)"|'(?:yes|no)'))?[ \t\r\n]*\?>/i;
const BLANK = /^[ \t\r\n]*$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: no XML has them
const NO_XML = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/;
const REFERENCE = /&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|(lt|gt|amp|apos|quot));/gi;
const CHARACTERS: Readonly<Record<string, string>> = { lt: "<", gt: ">", amp: "&", apos: "'", quot: '"' };

/**
 * Reads XML 1.0 with namespaces, as far as a request needs it: no document type, and so no entities but the five that
 * XML itself has. Looks at each character a fixed number of times. Throws a BadRequest for everything else.
 */
class XmlReader {
  readonly #text: string;
  readonly #sink: ElementSink;
  readonly #open: { readonly tag: string; readonly scope: Scope }[] = [];
  #position = 0;
  #roots = 0;

  constructor(text: string, sink: ElementSink) {
    this.#text = text;
    this.#sink = sink;
  }

  read(): void {
    const text = this.#text;
    if (NO_XML.test(text)) throw new BadRequest("the XML has characters that no XML has");
    if (text.startsWith("<?xml")) this.#position = this.#match(DECLARATION, "the XML declaration")[0].length;
    while (this.#position < text.length) this.#readPart();
    if (this.#roots !== 1 || this.#open.length > 0) throw new BadRequest("the XML must have one root element, closed");
  }

  #readPart(): void {
    const text = this.#text;
    const at = this.#position;
    if (text[at] !== "<") this.#readText();
    else if (text.startsWith("<?", at)) this.#skip("?>", "a processing instruction");
    else if (text.startsWith("<!--", at)) this.#skip("-->", "a comment", 4);
    else if (text.startsWith("<![CDATA[", at) && this.#open.length > 0) this.#skip("]]>", "CDATA", 9);
    else if (text.startsWith("<!", at)) throw new BadRequest("the XML must have no document type and no entities");
    else if (text.startsWith("</", at)) this.#readEnd();
    else this.#readStart();
  }

  #skip(end: string, what: string, from = 2): void {
    const found = this.#text.indexOf(end, this.#position + from);
    if (found < 0) throw new BadRequest(`${what} of the XML has no end`);
    this.#position = found + end.length;
  }

  #readText(): void {
    const [content] = this.#take(TEXT, "text");
    if (this.#open.length === 0 && !BLANK.test(content)) throw new BadRequest("the XML has text outside of its root");
    if (content.includes("]]>")) throw new BadRequest("the XML has ]]> in its text");
    resolveReferences(content);
  }

  #readEnd(): void {
    const [, , prefix, local = ""] = this.#take(TAG, "a tag");
    const [, slash] = this.#take(TAG_END, "a tag");
    const last = this.#open.pop();
    if (slash !== "" || last?.tag !== tagOf(prefix, local)) throw new BadRequest("the tags of the XML do not match");
  }

  #readStart(): void {
    const [, , prefix, local = ""] = this.#take(TAG, "a tag");
    const around = this.#open.at(-1)?.scope ?? OUTERMOST;
    const scope = this.#readAttributes(around);
    const [, slash] = this.#take(TAG_END, "a tag");
    const depth = this.#open.length;
    if (depth === 0) this.#roots++;
    if (depth >= MAX_DEPTH) throw new BadRequest(`the XML must have at most ${MAX_DEPTH} levels`);
    this.#sink.open({ namespace: namespaceOf(prefix ?? "", scope), local }, depth);
    if (slash === "") this.#open.push({ tag: tagOf(prefix, local), scope });
  }

  /** The namespaces that the attributes of a tag declare; other attributes mean nothing here. */
  #readAttributes(around: Scope): Scope {
    const own = new Map<string, string>();
    const names = new Set<string>();
    const prefixes = new Set<string>();
    for (;;) {
      ATTRIBUTE.lastIndex = this.#position;
      const match = ATTRIBUTE.exec(this.#text);
      if (match === null) break;
      this.#position = ATTRIBUTE.lastIndex;
      const [, prefix, local = "", double, single] = match;
      const value = resolveReferences(double ?? single ?? "");
      const name = tagOf(prefix, local);
      if (names.has(name)) throw new BadRequest("a tag of the XML has an attribute twice");
      names.add(name);
      if (prefix === undefined && local === "xmlns") own.set("", value);
      else if (prefix === "xmlns") own.set(declaredPrefix(local, value), value);
      else if (prefix !== undefined) prefixes.add(prefix);
    }
    const scope = own.size === 0 ? around : { own, around };
    for (const prefix of prefixes) namespaceOf(prefix, scope);
    return scope;
  }

  #take(pattern: RegExp, what: string): RegExpExecArray {
    pattern.lastIndex = this.#position;
    const match = this.#match(pattern, what);
    this.#position = pattern.lastIndex;
    return match;
  }

  #match(pattern: RegExp, what: string): RegExpExecArray {
    const match = pattern.exec(this.#text);
    if (match === null) throw new BadRequest(`${what} of the XML is malformed`);
    return match;
  }
}

function tagOf(prefix: string | undefined, local: string): string {
  return prefix === undefined ? local : `${prefix}:${local}`;
}

/** A prefix cannot be taken back, and those of XML itself cannot be changed (Namespaces in XML 1.0, section 3). */
function declaredPrefix(prefix: string, namespace: string): string {
  const isFixed = prefix === "xmlns" || (prefix === "xml") !== (namespace === XML_NAMESPACE);
  if (namespace === "" || isFixed) throw new BadRequest("the XML declares a namespace that it cannot have");
  return prefix;
}

function namespaceOf(prefix: string, scope: Scope): string {
  for (let at: Scope | undefined = scope; at !== undefined; at = at.around) {
    const found = at.own.get(prefix);
    if (found !== undefined) return found;
  }
  throw new BadRequest("the XML has a prefix without a namespace");
}

/** The text with its references replaced; there are no other entities than those of XML itself. */
function resolveReferences(text: string): string {
  if (!text.includes("&")) return text;
  let rest = 0;
  const resolved = text.replace(REFERENCE, (_, decimal?: string, hex?: string, name?: string) => {
    rest++;
    if (name !== undefined) return CHARACTERS[name] ?? "";
    const code = decimal === undefined ? Number.parseInt(hex ?? "", 16) : Number(decimal);
    const isCharacter = code <= 0x10_ffff && (code & 0xfffff800) !== 0xd800;
    const character = isCharacter ? String.fromCodePoint(code) : "\0";
    if (NO_XML.test(character)) throw new BadRequest("the XML refers to a character that no XML has");
    return character;
  });
  if (text.split("&").length - 1 !== rest) throw new BadRequest("the XML must have no entities");
  return resolved;
}
