import type { JsonScanner } from "../../struct/json-scanner.ts";
import { NO_EXTRA_KEYS } from "./field-reader.ts";
import type { ChunkRecord, ManifestEntry } from "./manifest.ts";

/**
 * Records as the reference and tare write them, read by one pattern each: four times as fast as key by key, and a vault may
 * have a hundred thousand. Whatever is written otherwise does not match and is read, or refused, by the field reader.
 */

/** Exact in a double, without a leading zero. */
const WHOLE = "(0|[1-9][0-9]{0,14})";
const TEXT = '"([^"]*)"';

const ENTRY = new RegExp(
  `\\{"path":${TEXT},"size":${WHOLE},"modified":${TEXT},"is_dir":(true|false),"chunks":\\[([^\\]]*)\\]` +
    `(?:,"pack_offset":${WHOLE})?(?:,"mtime":${TEXT})?(?:,"mode":${WHOLE})?\\}`,
  "y",
);

const CHUNK = new RegExp(
  `\\{"id":${TEXT},"block_index":${WHOLE},"data_offset":${WHOLE},"block_len":${WHOLE},"plaintext_len":${WHOLE},` +
    `"compressed_len":${WHOLE},"cipher_hash":${TEXT}(,"stored_raw":true)?\\}`,
  "y",
);

/** An id in quotes, and the comma behind it. */
const ID_STRIDE = 35;

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are exactly what is looked for
const UNUSUAL = /[\u0000-\u001f\\]/;

/** Reads usual records of one text. */
export class UsualRecords {
  readonly #scanner: JsonScanner;
  /** Neighbours in a pack share their chunks: one list serves them all. */
  #lastText = "";
  #lastIds: readonly string[] = [];

  private constructor(scanner: JsonScanner) {
    this.#scanner = scanner;
  }

  /** Undefined where strings may have escapes, or control characters that must be refused. */
  static of(scanner: JsonScanner): UsualRecords | undefined {
    return UNUSUAL.test(scanner.text) ? undefined : new UsualRecords(scanner);
  }

  /** The entry at the scanner's position, which moves behind it; undefined where it is written otherwise. */
  entry(): ManifestEntry | undefined {
    const match = this.#match(ENTRY);
    if (match === null) return undefined;
    const [whole, path = "", size, modified = "", isDir, idsText = "", packOffset, mtime, mode] = match;
    const chunks = this.#ids(idsText);
    if (chunks === undefined) return undefined;
    this.#scanner.position += whole.length;
    return {
      path,
      size: Number(size),
      modified,
      isDir: isDir === "true",
      chunks,
      packOffset: packOffset === undefined ? undefined : Number(packOffset),
      mtime,
      mode: mode === undefined ? undefined : Number(mode),
      extra: NO_EXTRA_KEYS,
    };
  }

  /** The record of a chunk, in the same way. */
  chunk(id: string): ChunkRecord | undefined {
    const match = this.#match(CHUNK);
    if (match === null) return undefined;
    const [whole, innerId, blockIndex, dataOffset, blockLen, plaintextLen, compressedLen, cipherHash = "", raw] = match;
    this.#scanner.position += whole.length;
    return {
      id,
      innerId: innerId === id ? undefined : innerId,
      blockIndex: Number(blockIndex),
      dataOffset: Number(dataOffset),
      blockLen: Number(blockLen),
      plaintextLen: Number(plaintextLen),
      compressedLen: Number(compressedLen),
      cipherHash,
      storedRaw: raw !== undefined,
      extra: NO_EXTRA_KEYS,
    };
  }

  #match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#scanner.position;
    return pattern.exec(this.#scanner.text);
  }

  #ids(text: string): readonly string[] | undefined {
    if (text === this.#lastText) return this.#lastIds;
    const ids = splitIds(text);
    if (ids === undefined) return undefined;
    this.#lastText = text;
    this.#lastIds = ids;
    return ids;
  }
}

/** Undefined where the text is no list of ids without white space. */
function splitIds(text: string): string[] | undefined {
  if ((text.length + 1) % ID_STRIDE !== 0) return undefined;
  const ids: string[] = [];
  for (let start = 0; start < text.length; start += ID_STRIDE) {
    const id = text.slice(start + 1, start + ID_STRIDE - 2);
    const end = start + ID_STRIDE - 1;
    const isQuoted = text[start] === '"' && text[end - 1] === '"' && !id.includes('"');
    if (!isQuoted || (end < text.length && text[end] !== ",")) return undefined;
    ids.push(id);
  }
  return ids;
}
