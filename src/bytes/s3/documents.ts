import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { SourceError } from "../../base/errors.ts";
import { parseContentLength } from "../http/headers.ts";
import type { HttpResponse } from "../http/transport.ts";
import type { S3Address } from "./address.ts";

/** An object in its current state. */
export interface S3Object {
  readonly key: string;
  readonly byteLength: number;
  readonly etag: string;
}

/** A part that the store has accepted. */
export interface S3Part {
  readonly number: number;
  readonly etag: string;
  /** Base64; the store has checked the bytes against it. */
  readonly sha256: string;
}

/** A part in a listing of the store. */
export interface S3ListedPart {
  readonly number: number;
  readonly etag: string;
  readonly byteLength: number;
}

/** A page of a listing with the longest keys has about 2 MiB. */
const MAX_DOCUMENT_BYTES = 16 << 20;

/** The body of CompleteMultipartUpload. Stores without checksums may refuse a body with checksums. */
export function encodeParts(parts: readonly S3Part[], checksums: "sent" | "left-out"): string {
  const rows = parts.map(({ number, etag, sha256 }) => {
    const checksum = checksums === "sent" ? `<ChecksumSHA256>${escapeXml(sha256)}</ChecksumSHA256>` : "";
    return `<Part><PartNumber>${number}</PartNumber><ETag>${escapeXml(etag)}</ETag>${checksum}</Part>`;
  });
  const space = "http://s3.amazonaws.com/doc/2006-03-01/";
  return `<CompleteMultipartUpload xmlns="${space}">${rows.join("")}</CompleteMultipartUpload>`;
}

/** A `Part` of ListParts. */
export function decodePart(element: XmlElement, address: S3Address): S3ListedPart {
  const number = decodeCount(childText(element, "PartNumber"), address);
  const byteLength = decodeCount(childText(element, "Size"), address);
  return { number, byteLength, etag: childText(element, "ETag") ?? "" };
}

/** A `Contents` of ListObjectsV2. */
export function decodeObject(element: XmlElement, address: S3Address): S3Object {
  const byteLength = decodeCount(childText(element, "Size"), address);
  return { key: childText(element, "Key") ?? "", byteLength, etag: childText(element, "ETag") ?? "" };
}

function decodeCount(text: string | undefined, address: S3Address): number {
  const count = parseContentLength(text ?? null);
  if (count === undefined) throw replyError(address, "a size or number in it must be a whole number");
  return count;
}

/** Parses a reply that must be a document. */
export function decodeDocument(text: string, address: S3Address): XmlElement {
  const document = parseXml(text);
  if (document === undefined) {
    throw replyError(address, `it must be an XML document of at most ${MAX_TOKENS} elements and texts`);
  }
  return document;
}

/** Text beside the entries of all pages of a listing; the longest page without entries has a few hundred bytes. */
const MAX_FILLING = MAX_DOCUMENT_BYTES;
/** An entry with a key of 1024 bytes, each as a character reference, and the longest owner. */
const MAX_ENTRY = 8 << 10;

/** The pages of one listing, as long as their number of entries allows. */
export class ListingPages {
  readonly #address: S3Address;
  #filling = 0;

  constructor(address: S3Address) {
    this.#address = address;
  }

  /** The elements of the next page; `count` tells how many of them are entries. */
  next(text: string, count: (document: XmlElement) => number): XmlElement {
    const document = decodeDocument(text, this.#address);
    this.#filling += Math.max(0, text.length - MAX_ENTRY * count(document));
    if (this.#filling <= MAX_FILLING) return document;
    throw replyError(this.#address, `its pages must hold entries, and hold ${MAX_FILLING} bytes of other text`);
  }
}

/** The whole body of a reply that is not the content of an object. */
export async function readReply(response: HttpResponse, address: S3Address): Promise<string> {
  const pieces: Bytes[] = [];
  let byteLength = 0;
  try {
    for await (const piece of response.body) {
      byteLength += piece.byteLength;
      if (byteLength > MAX_DOCUMENT_BYTES) {
        throw replyError(address, `it must have at most ${MAX_DOCUMENT_BYTES} bytes`);
      }
      pieces.push(piece.slice());
    }
  } finally {
    response.cancel();
  }
  return new TextDecoder().decode(concatBytes(pieces));
}

/** The error for a reply that is not from an object store; `reason` completes the sentence. */
export function replyError(address: S3Address, reason: string): SourceError {
  const message = `Cannot use the reply of the store about "${address.label}": ${reason}`;
  return new SourceError("source/s3.reply", message, { source: address.label }, { hint: "Check AWS_ENDPOINT_URL_S3" });
}

/** An element of a reply of an object store. */
export interface XmlElement {
  readonly name: string;
  /** Its own text, entities decoded. */
  readonly text: string;
  readonly children: readonly XmlElement[];
}

/** Replies of S3 have four levels; a deeper document is not a reply of S3. */
const MAX_DEPTH = 16;

/** A page has up to 1000 entries of about fifteen elements: some 60,000 begins, texts and ends. */
const MAX_TOKENS = 1 << 18;

/**
 * The begin of a tag, one attribute, the end of a tag. No group repeats in them: a regular expression keeps a place to
 * return to for each turn of a group, and the engine's stack has an end.
 */
const TAG = /<(\/?)([A-Za-z_][\w.:-]*)/y;
const ATTRIBUTE = /\s+[\w.:-]+\s*=\s*(?:"[^"<]*"|'[^'<]*')/y;
const TAG_END = /\s*(\/?)>/y;

interface OpenElement {
  readonly name: string;
  text: string;
  readonly children: XmlElement[];
}

/**
 * Reads the small subset of XML in S3 replies: elements and text. Attributes are skipped; document types, and with them
 * every entity bomb, are refused. Undefined if the text is anything else, or longer than any reply.
 */
export function parseXml(document: string): XmlElement | undefined {
  const text = document.replace(/^\ufeff/, "");
  const root: OpenElement = { name: "", text: "", children: [] };
  const stack: OpenElement[] = [root];
  let position = 0;
  for (let tokens = 0; position < text.length; tokens++) {
    const end = tokens < MAX_TOKENS ? takeToken(text, position, stack) : undefined;
    if (end === undefined) return undefined;
    position = end;
  }
  const [only, second] = root.children;
  return stack.length === 1 && second === undefined ? only : undefined;
}

/** Applies the token at `position` to the open elements. Returns where it ends; undefined if it does not fit. */
function takeToken(text: string, position: number, stack: OpenElement[]): number | undefined {
  if (text[position] !== "<") {
    const end = text.indexOf("<", position);
    const piece = text.slice(position, end < 0 ? text.length : end);
    (stack.at(-1) as OpenElement).text += decodeEntities(piece);
    return position + piece.length;
  }
  if (text.startsWith("<!--", position)) return endOf(text, position + 4, "-->");
  if (text.startsWith("<?", position)) return endOf(text, position + 2, "?>");
  const tag = matchAt(TAG, text, position);
  if (tag === undefined) return undefined;
  let end = TAG.lastIndex;
  while (matchAt(ATTRIBUTE, text, end) !== undefined) end = ATTRIBUTE.lastIndex;
  const close = matchAt(TAG_END, text, end);
  if (close === undefined) return undefined;
  const [, slash, name = ""] = tag;
  return takeTag(stack, { name, isEnd: slash === "/", isEmpty: close[1] === "/" }) ? TAG_END.lastIndex : undefined;
}

function endOf(text: string, position: number, mark: string): number | undefined {
  const found = text.indexOf(mark, position);
  return found < 0 ? undefined : found + mark.length;
}

function matchAt(pattern: RegExp, text: string, position: number): RegExpExecArray | undefined {
  pattern.lastIndex = position;
  return pattern.exec(text) ?? undefined;
}

interface Tag {
  readonly name: string;
  readonly isEnd: boolean;
  readonly isEmpty: boolean;
}

/** False if the tag does not fit the open elements. */
function takeTag(stack: OpenElement[], { name, isEnd, isEmpty }: Tag): boolean {
  const current = stack.at(-1) as OpenElement;
  if (isEnd) {
    if (stack.length < 2 || current.name !== name) return false;
    stack.pop();
    (stack.at(-1) as OpenElement).children.push(current);
    return true;
  }
  if (isEmpty) current.children.push({ name, text: "", children: [] });
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

/** Escapes text inside an element. */
export function escapeXml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
