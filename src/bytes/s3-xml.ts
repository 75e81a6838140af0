/** An element of a reply of an object store. */
export interface XmlElement {
  readonly name: string;
  /** Its own text, entities decoded. */
  readonly text: string;
  readonly children: readonly XmlElement[];
}

/** Replies of S3 nest four deep; anything deeper is none. */
const MAX_DEPTH = 16;

const TOKEN =
  /<\?[^>]*\?>|<!--(?:(?!-->)[\s\S])*-->|<(\/?)([A-Za-z_][\w.:-]*)((?:\s+[\w.:-]+\s*=\s*(?:"[^"<]*"|'[^'<]*'))*)\s*(\/?)>|[^<]+/y;

interface OpenElement {
  readonly name: string;
  text: string;
  readonly children: XmlElement[];
}

/**
 * Reads the small subset of XML that S3 replies are made of: elements and text. Attributes are skipped; document
 * types, and with them every entity bomb, are refused. Undefined where the text is anything else.
 */
export function parseXml(document: string): XmlElement | undefined {
  const text = document.replace(/^\ufeff/, "");
  const root: OpenElement = { name: "", text: "", children: [] };
  const stack: OpenElement[] = [root];
  for (let position = 0; position < text.length; position = TOKEN.lastIndex) {
    TOKEN.lastIndex = position;
    const match = TOKEN.exec(text);
    if (match === null || !take(match, stack)) return undefined;
  }
  const [only, second] = root.children;
  return stack.length === 1 && second === undefined ? only : undefined;
}

/** Applies one token to the elements that are open; false where it does not fit. */
function take(match: RegExpExecArray, stack: OpenElement[]): boolean {
  const [token, slash, name, , selfClosing] = match;
  const current = stack.at(-1) as OpenElement;
  if (name === undefined) {
    if (!token.startsWith("<")) current.text += decodeEntities(token);
    return true;
  }
  if (slash === "/") {
    if (stack.length < 2 || current.name !== name) return false;
    stack.pop();
    (stack.at(-1) as OpenElement).children.push(current);
    return true;
  }
  if (selfClosing === "/") current.children.push({ name, text: "", children: [] });
  else stack.push({ name, text: "", children: [] });
  return stack.length <= MAX_DEPTH;
}

/** Text of the first child of that name. */
export function childText(element: XmlElement | undefined, name: string): string | undefined {
  return element?.children.find((child) => child.name === name)?.text;
}

/** Children of that name, in order. */
export function childrenOf(element: XmlElement | undefined, name: string): readonly XmlElement[] {
  return element?.children.filter((child) => child.name === name) ?? [];
}

const ENTITIES: ReadonlyMap<string, string> = new Map([
  ["amp", "&"],
  ["lt", "<"],
  ["gt", ">"],
  ["quot", '"'],
  ["apos", "'"],
]);

function decodeEntities(text: string): string {
  return text.replace(/&(?:#x([0-9a-f]{1,6})|#(\d{1,7})|([a-z]+));/gi, (whole, hex, decimal, name) => {
    if (name !== undefined) return ENTITIES.get(name) ?? whole;
    const code = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16);
    return code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
}

/** For text inside an element. */
export function escapeXml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
