import type { JsonScanner } from "../../struct/json-scanner.ts";
import { NO_EXTRA_KEYS } from "./field-reader.ts";
import { isChunkId } from "./framing.ts";
import type { ChunkRecord, ManifestEntry } from "./manifest.ts";

/**
 * Records as the reference and tare write them, read field after field without looking for keys: many times as fast as key
 * by key, and a vault may have a hundred thousand. Whatever is written otherwise is read, or refused, by the field reader.
 */

/** An id in quotes, and the comma behind it. */
const ID_STRIDE = 35;

const ZERO = 0x30;
const NINE = 0x39;
const LEAST_PRINTABLE = 0x20;
/** Exact in a double. */
const MOST_DIGITS = 15;

/** One entry. Control characters are for the field reader to refuse, and so are numbers that are not exact in a double. */
const ENTRY = entryPattern("(0|[1-9][0-9]{0,14})", '([^"\\x00-\\x1f]*)');

function entryPattern(whole: string, text: string): RegExp {
  const fields = `"path":"${text}","size":${whole},"modified":"${text}","is_dir":(true|false),"chunks":\\[([^\\]]*)\\]`;
  return new RegExp(`{${fields}(?:,"pack_offset":${whole})?(?:,"mtime":"${text}")?(?:,"mode":${whole})?}`, "y");
}

/** Reads usual records of one text. A step that does not find what is usual sets `#failed`, which is asked at the end. */
export class UsualRecords {
  readonly #scanner: JsonScanner;
  readonly #text: string;
  #at = 0;
  #failed = false;
  /** Entries of one seal have the same time: one string serves them all. */
  #lastModified = "";
  /** Neighbours in a pack share their chunks: one list serves them all. */
  #lastText = "";
  #lastIds: readonly string[] = [];

  private constructor(scanner: JsonScanner) {
    this.#scanner = scanner;
    this.#text = scanner.text;
  }

  /** Undefined where strings may have escapes. */
  static of(scanner: JsonScanner): UsualRecords | undefined {
    return scanner.text.includes("\\") ? undefined : new UsualRecords(scanner);
  }

  /** The entry at the scanner's position, which moves behind it; undefined where it is written otherwise. */
  entry(): ManifestEntry | undefined {
    ENTRY.lastIndex = this.#scanner.position;
    const match = ENTRY.exec(this.#text);
    if (match === null) return undefined;
    const [, path = "", size, modified = "", directory, ids = "", packOffset, mtime, mode] = match;
    const chunks = this.#idsIn(ids);
    if (chunks === undefined) return undefined;
    if (modified !== this.#lastModified) this.#lastModified = modified;
    this.#scanner.position = ENTRY.lastIndex;
    return {
      path,
      size: Number(size),
      modified: this.#lastModified,
      isDir: directory === "true",
      chunks,
      packOffset: packOffset === undefined ? undefined : Number(packOffset),
      mtime,
      mode: mode === undefined ? undefined : Number(mode),
      extra: NO_EXTRA_KEYS,
    };
  }

  /** The record of a chunk, in the same way. */
  chunk(id: string): ChunkRecord | undefined {
    this.#begin();
    const innerId = this.#string('{"id":"');
    const blockIndex = this.#whole(',"block_index":');
    const dataOffset = this.#whole(',"data_offset":');
    const blockLen = this.#whole(',"block_len":');
    const plaintextLen = this.#whole(',"plaintext_len":');
    const compressedLen = this.#whole(',"compressed_len":');
    const cipherHash = this.#string(',"cipher_hash":"');
    const storedRaw = this.#skip(',"stored_raw":true');
    this.#expect("}");
    if (!this.#finish()) return undefined;
    return {
      id,
      innerId: innerId === id ? undefined : innerId,
      blockIndex,
      dataOffset,
      blockLen,
      plaintextLen,
      compressedLen,
      cipherHash,
      storedRaw,
      extra: NO_EXTRA_KEYS,
    };
  }

  #begin(): void {
    this.#at = this.#scanner.position;
    this.#failed = false;
  }

  #finish(): boolean {
    if (!this.#failed) this.#scanner.position = this.#at;
    return !this.#failed;
  }

  /** Steps over `literal` where it is next. */
  #skip(literal: string): boolean {
    // Faster than `startsWith` on texts this short.
    for (let i = 0; i < literal.length; i++) {
      if (this.#text.charCodeAt(this.#at + i) !== literal.charCodeAt(i)) return false;
    }
    this.#at += literal.length;
    return true;
  }

  #expect(literal: string): void {
    if (!this.#skip(literal)) this.#failed = true;
  }

  /** The text from behind `key` up to the next quote. Control characters are for the field reader to refuse. */
  #string(key: string): string {
    this.#expect(key);
    const start = this.#at;
    const end = this.#text.indexOf('"', start);
    if (this.#failed || end < 0) return this.#fail("");
    for (let i = start; i < end; i++) {
      if (this.#text.charCodeAt(i) < LEAST_PRINTABLE) return this.#fail("");
    }
    this.#at = end + 1;
    return this.#text.slice(start, end);
  }

  /** A whole number without a leading zero. */
  #whole(key: string): number {
    this.#expect(key);
    const start = this.#at;
    let value = 0;
    let digit = this.#text.charCodeAt(start);
    for (; digit >= ZERO && digit <= NINE; digit = this.#text.charCodeAt(this.#at)) {
      value = value * 10 + digit - ZERO;
      this.#at++;
    }
    const count = this.#at - start;
    const isPadded = count > 1 && this.#text.charCodeAt(start) === ZERO;
    return count === 0 || count > MOST_DIGITS || isPadded ? this.#fail(0) : value;
  }

  #idsIn(text: string): readonly string[] | undefined {
    if (text === this.#lastText) return this.#lastIds;
    const ids = splitIds(text);
    if (ids === undefined) return undefined;
    this.#lastText = text;
    this.#lastIds = ids;
    return ids;
  }

  #fail<T>(value: T): T {
    this.#failed = true;
    return value;
  }
}

/** Undefined where the text is no list of ids without white space. */
function splitIds(text: string): string[] | undefined {
  if (text === "") return [];
  if ((text.length + 1) % ID_STRIDE !== 0) return undefined;
  const ids: string[] = [];
  for (let start = 0; start < text.length; start += ID_STRIDE) {
    const id = text.slice(start + 1, start + ID_STRIDE - 2);
    const end = start + ID_STRIDE - 1;
    const isQuoted = text[start] === '"' && text[end - 1] === '"' && isChunkId(id);
    if (!isQuoted || (end < text.length && text[end] !== ",")) return undefined;
    ids.push(id);
  }
  return ids;
}
