import type { Bytes } from "../../src/base/bytes.ts";
import { FormatError, LimitError, UsageError } from "../../src/base/errors.ts";
import { decodeUtf8, findInvalidUtf8 } from "../../src/base/text.ts";
import type { Source } from "../../src/bytes/source.ts";
import { openFile, openStdin } from "../../src/platform/node/file-source.ts";
import type { Context } from "../context.ts";

/** A text to embed and where it stands. */
export interface NumberedText {
  readonly text: string;
  /** Line of its file, or place among the arguments, from 1. */
  readonly line: number;
}

/** Most bytes that texts may take, where --memory does not say. */
const MAX_BYTES = 1 << 30;
/** What a text takes beside its bytes: a file of line feeds alone becomes a text for each. */
const TEXT_COST = 256;
/** Some two million words. A model looks at a few hundred tokens, so a longer line is no text but another kind of file. */
const MAX_LINE_BYTES = 16 << 20;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;

/** The texts of the command line, "-" replaced by the lines of standard input. */
export async function readTypedTexts(context: Context, typed: readonly string[]): Promise<NumberedText[]> {
  const texts: NumberedText[] = [];
  if (typed.filter((text) => text === "-").length > 1) {
    throw new UsageError("usage/arguments", 'Cannot read standard input twice: "-" must be given once', {
      source: "command line",
    });
  }
  for (const text of typed) {
    // One by one: a few hundred thousand are too many for the arguments of one call.
    if (text === "-") for (const line of await readTextFile(context, "-")) texts.push(line);
    else texts.push({ text, line: texts.length + 1 });
  }
  return texts;
}

/** The texts of a file: its lines, or what a `.jsonl` or `.ndjson` file says in each of them. */
export async function readTextFile(context: Context, path: string): Promise<NumberedText[]> {
  const { signal, flags } = context;
  const maxBytes = flags.memory ?? MAX_BYTES;
  const options = { signal, maxSpoolBytes: maxBytes };
  const source = path === "-" ? await openStdin(options) : await openFile(path, options);
  try {
    const bytes = await readWhole(source, maxBytes, signal);
    const parse = /\.(jsonl|ndjson)$/i.test(path) ? parseJsonLines : parseTextLines;
    return parse(bytes, source.label, maxBytes);
  } finally {
    await source.close();
  }
}

async function readWhole(source: Source, maxBytes: number, signal: AbortSignal): Promise<Bytes> {
  if (source.byteLength > maxBytes) {
    const message = `Cannot hold the texts: must be <= ${maxBytes} bytes, found ${source.byteLength}`;
    throw new LimitError("limit/budget", message, { source: source.label, offset: maxBytes }, { hint: BUDGET_HINT });
  }
  return source.read(0, source.byteLength, { signal });
}

const BUDGET_HINT = "Embed the file in parts, or raise --memory";

/** Every line is a text, empty ones too. Lines end at LF or CR LF, and the last one need not. */
export function parseTextLines(bytes: Bytes, label: string, maxBytes = MAX_BYTES): NumberedText[] {
  return splitLines(bytes, label, maxBytes).map(({ text, line }) => ({ text, line }));
}

/** Every line is a JSON string, or an object with the text under "text". Empty lines are skipped. */
export function parseJsonLines(bytes: Bytes, label: string, maxBytes = MAX_BYTES): NumberedText[] {
  const lines = splitLines(bytes, label, maxBytes).filter(({ text }) => text.trim() !== "");
  return lines.map((line) => ({ text: parseJsonText(line, label), line: line.line }));
}

interface Line extends NumberedText {
  /** Of its first byte. */
  readonly offset: number;
}

function splitLines(bytes: Bytes, label: string, maxBytes: number): Line[] {
  // All of them before the first becomes text: what is refused has cost nothing then.
  for (const place of linePlaces(bytes)) checkLine(place, { label, maxBytes });
  const lines: Line[] = [];
  for (const place of linePlaces(bytes)) {
    const { line, offset, byteLength } = place;
    const text = decodeLine(bytes.subarray(offset, offset + byteLength), label, place);
    lines.push({ line, offset, text });
  }
  return lines;
}

/** A line of a file, without what ends it. */
interface LinePlace {
  /** From 1. */
  readonly line: number;
  readonly offset: number;
  readonly byteLength: number;
}

function* linePlaces(bytes: Bytes): Generator<LinePlace> {
  // Editors put a byte order mark before the first line; it is no part of it.
  let start = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0;
  for (let line = 1; start < bytes.byteLength; line++) {
    const found = bytes.indexOf(LINE_FEED, start);
    const end = found < 0 ? bytes.byteLength : found;
    const cut = found > start && bytes[found - 1] === CARRIAGE_RETURN ? found - 1 : end;
    yield { line, offset: start, byteLength: cut - start };
    start = end + 1;
  }
}

/** There is no text longer than half a gigabyte, and no room for any number of them. */
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

/** Where the first character begins that is none: it may break off some bytes later. */
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
