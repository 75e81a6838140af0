import { NO_EXTRA_KEYS } from "./field-reader.ts";
import { isChunkId } from "./framing.ts";
import type { ChunkRecord, ManifestEntry } from "./manifest.ts";

/**
 * Records as the reference and tare write them, read in one go without looking for keys: many times as fast as key by key,
 * and a vault may have a hundred thousand. Whatever is written otherwise is read, or refused, by the field reader.
 */

/** An id in quotes, and the comma behind it. */
const ID_STRIDE = 35;

/** Numbers that are not exact in a double are for the field reader to refuse, and so are control characters. */
const WHOLE = "(0|[1-9][0-9]{0,14})";
const TEXT = '([^"\\x00-\\x1f]*)';

const ENTRY = new RegExp(
  `{"path":"${TEXT}","size":${WHOLE},"modified":"${TEXT}","is_dir":(true|false),"chunks":\\[([^\\]]*)\\]` +
    `(?:,"pack_offset":${WHOLE})?(?:,"mtime":"${TEXT}")?(?:,"mode":${WHOLE})?}`,
  "y",
);
const CHUNK = new RegExp(
  `{"id":"${TEXT}","block_index":${WHOLE},"data_offset":${WHOLE},"block_len":${WHOLE},"plaintext_len":${WHOLE}` +
    `,"compressed_len":${WHOLE},"cipher_hash":"${TEXT}"(,"stored_raw":true)?}`,
  "y",
);

/** Reads usual records of one text, which has no escapes. */
export class UsualRecords {
  /** Behind the record that was read last. */
  end = 0;
  readonly #text: string;
  /** Entries of one seal have the same time: one string serves them all. */
  #lastModified = "";
  /** Neighbours in a pack share their chunks: one list serves them all. */
  #lastText = "";
  #lastIds: readonly string[] = [];

  constructor(text: string) {
    this.#text = text;
  }

  /** The entry at a position; undefined where it is written otherwise. */
  entry(position: number): ManifestEntry | undefined {
    const match = this.#match(ENTRY, position);
    if (match === null) return undefined;
    const [, path = "", size, modified = "", directory, ids = "", packOffset, mtime, mode] = match;
    const chunks = this.#idsIn(ids);
    if (chunks === undefined) return undefined;
    if (modified !== this.#lastModified) this.#lastModified = modified;
    this.end = ENTRY.lastIndex;
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

  /** The record of the chunk `id`, in the same way. */
  chunk(position: number, id: string): ChunkRecord | undefined {
    const match = this.#match(CHUNK, position);
    if (match === null) return undefined;
    const [, innerId, blockIndex, dataOffset, blockLen, plaintextLen, compressedLen, cipherHash = "", raw] = match;
    this.end = CHUNK.lastIndex;
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

  #match(pattern: RegExp, position: number): RegExpExecArray | null {
    pattern.lastIndex = position;
    return pattern.exec(this.#text);
  }

  #idsIn(text: string): readonly string[] | undefined {
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
