import type { Bytes } from "../base/bytes.ts";
import { FormatError, LimitError } from "../base/errors.ts";
import { decodeUtf8, findInvalidUtf8 } from "../base/text.ts";
import type { Source } from "../bytes/source.ts";

/** A text to embed and its line. */
export interface NumberedText {
  readonly text: string;
  /** Line in its file, or place in its list, from 1. */
  readonly line: number;
  /** The file's name, if the texts are those of a folder. */
  readonly file?: string | undefined;
}

/** The files of a folder that are read as texts. */
export function isTextName(name: string): boolean {
  return /\.(txt|text|md|markdown)$/i.test(name);
}

/** The same order on every machine, whatever its language. */
export function compareNames(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Most bytes of all texts, unless the option memory says otherwise. */
export const MAX_TEXT_BYTES: number = 1 << 30;
/** What a text takes besides its bytes: a file of only line feeds becomes one text for each. */
const TEXT_COST = 256;
/** About two million words. A model reads a few hundred tokens, so a file with a longer line is not a text file. */
const MAX_LINE_BYTES = 16 << 20;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;

/** What empty lines separate in each text, under the number of that text. */
export function paragraphsOf(texts: readonly NumberedText[]): NumberedText[] {
  return texts.flatMap((whole) => joinLines(whole.text.split(/\r?\n/).map((text) => ({ ...whole, text }))));
}

/** Paragraphs of consecutive lines, each under the number of its first one: where an editor broke a line means nothing. */
function joinLines(lines: readonly NumberedText[]): NumberedText[] {
  const paragraphs: NumberedText[] = [];
  let open: { readonly first: NumberedText; readonly parts: string[] } | undefined;
  const close = (): void => {
    if (open !== undefined) paragraphs.push({ ...open.first, text: open.parts.join(" ") });
    open = undefined;
  };
  for (const line of lines) {
    const text = line.text.trim();
    if (text === "") close();
    else if (open === undefined) open = { first: line, parts: [text] };
    else open.parts.push(text);
  }
  close();
  return paragraphs;
}

/** What counts as one text of a file. */
export type TextUnit = "line" | "paragraph";

interface ReadTextsOptions {
  readonly unit?: TextUnit | undefined;
  readonly maxBytes?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * The texts of a file: its lines or paragraphs, or the text in each line of a `.jsonl` or `.ndjson` file, or the
 * paragraphs of that.
 */
export async function readTexts(
  source: Source,
  { unit = "line", maxBytes = MAX_TEXT_BYTES, signal }: ReadTextsOptions,
): Promise<NumberedText[]> {
  const { label } = source;
  const isJson = /\.(jsonl|ndjson)$/i.test(label.replace(/[?#].*$/s, ""));
  const texts = (isJson ? parseJsonLines : parseTextLines)(await readWhole(source, maxBytes, signal), label, maxBytes);
  if (unit === "line") return texts;
  return isJson ? paragraphsOf(texts) : joinLines(texts);
}

async function readWhole(source: Source, maxBytes: number, signal: AbortSignal | undefined): Promise<Bytes> {
  if (source.byteLength > maxBytes) {
    const message = `Cannot hold the texts: must be <= ${maxBytes} bytes, found ${source.byteLength}`;
    throw new LimitError("limit/budget", message, { source: source.label, offset: maxBytes }, { hint: BUDGET_HINT });
  }
  return source.read(0, source.byteLength, { signal });
}

const BUDGET_HINT = "Embed the file in parts, or raise the option memory";

/** Every line is a text, also an empty one. Lines end at LF or CR LF; the last one need not. */
export function parseTextLines(bytes: Bytes, label: string, maxBytes = MAX_TEXT_BYTES): NumberedText[] {
  return splitLines(bytes, label, maxBytes).map(({ text, line }) => ({ text, line }));
}

/** Every line is a JSON string, or an object with the text under "text". Empty lines are skipped. */
export function parseJsonLines(bytes: Bytes, label: string, maxBytes = MAX_TEXT_BYTES): NumberedText[] {
  const lines = splitLines(bytes, label, maxBytes).filter(({ text }) => text.trim() !== "");
  return lines.map((line) => ({ text: parseJsonText(line, label), line: line.line }));
}

interface Line extends NumberedText {
  /** Offset of its first byte. */
  readonly offset: number;
}

function splitLines(bytes: Bytes, label: string, maxBytes: number): Line[] {
  // Checks all lines before the first one becomes text, so that a refusal costs nothing.
  for (const place of linePlaces(bytes)) checkLine(place, { label, maxBytes });
  const lines: Line[] = [];
  for (const place of linePlaces(bytes)) {
    const { line, offset, byteLength } = place;
    const text = decodeLine(bytes.subarray(offset, offset + byteLength), label, place);
    lines.push({ line, offset, text });
  }
  return lines;
}

/** A line of a file, without its line ending. */
interface LinePlace {
  /** From 1. */
  readonly line: number;
  readonly offset: number;
  readonly byteLength: number;
}

function* linePlaces(bytes: Bytes): Generator<LinePlace> {
  // Editors put a byte order mark before the first line; it is not part of it.
  let start = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0;
  for (let line = 1; start < bytes.byteLength; line++) {
    const found = bytes.indexOf(LINE_FEED, start);
    const end = found < 0 ? bytes.byteLength : found;
    const cut = found > start && bytes[found - 1] === CARRIAGE_RETURN ? found - 1 : end;
    yield { line, offset: start, byteLength: cut - start };
    start = end + 1;
  }
}

/** No text is longer than half a gigabyte, and memory does not hold any number of them. */
function checkLine(
  { line, offset, byteLength }: LinePlace,
  { label, maxBytes }: { readonly label: string; readonly maxBytes: number },
): void {
  const at = { source: label, offset, path: `line ${line}` };
  if (byteLength > MAX_LINE_BYTES) {
    const message = `Cannot read the texts: line ${line} must have <= ${MAX_LINE_BYTES} bytes, found ${byteLength}`;
    const hint = "Name a file that has one text a line; a model looks at the first few hundred words of each";
    throw new LimitError("limit/texts.line", message, at, { hint });
  }
  if (offset + line * TEXT_COST <= maxBytes) return;
  const message = `Cannot hold the texts: ${line} lines take more than ${maxBytes} bytes of memory`;
  throw new LimitError("limit/budget", message, at, { hint: BUDGET_HINT });
}

function decodeLine(bytes: Bytes, label: string, { line, offset }: LinePlace): string {
  const text = decodeUtf8(bytes);
  if (text !== undefined) return text;
  const bad = firstInvalid(bytes);
  const found = (bytes[bad] ?? 0).toString(16).padStart(2, "0");
  const message = `Cannot read the texts: line ${line} must be UTF-8, found the byte ${found}`;
  const at = { source: label, offset: offset + bad, path: `line ${line}` };
  throw new FormatError("format/texts.utf8", message, at, { hint: "Save the file as UTF-8" });
}

/** Where the first invalid character begins: the invalid byte may come a few bytes later. */
function firstInvalid(bytes: Bytes): number {
  let bad = findInvalidUtf8(bytes);
  while (decodeUtf8(bytes.subarray(0, bad)) === undefined) bad--;
  return bad;
}

function parseJsonText({ text, line, offset }: Line, label: string): string {
  const wanted = 'must be a JSON string, or an object with a string "text"';
  const fail = (found: string): FormatError => {
    const message = `Cannot read the texts: line ${line} ${wanted}, found ${found}`;
    return new FormatError("format/texts.json", message, { source: label, offset, path: `line ${line}` });
  };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw fail("something that is no JSON");
  }
  if (typeof value === "string") return value;
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw fail(JSON.stringify(value).slice(0, 40));
  const own: unknown = Object.hasOwn(value, "text") ? (value as { readonly text: unknown }).text : undefined;
  if (typeof own === "string") return own;
  throw fail(own === undefined ? 'an object without "text"' : `a "text" that is ${JSON.stringify(own).slice(0, 40)}`);
}
