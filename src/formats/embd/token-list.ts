import type { Bytes } from "../../base/bytes.ts";
import { decodeUtf8 } from "../../base/text.ts";
import type { ArrayValue, EncodedValue, MetadataValue } from "../../model/metadata.ts";
import { ByteWriter } from "../../struct/byte-writer.ts";
import { MAX_TEXT_BYTES, TOKEN_HEADER_BYTES } from "./layout.ts";
import { textValue } from "./metadata-section.ts";

/** Names the encoding of a vocabulary in `tare.origin`: u32 count, then token entries as the section has them. */
const ENCODING = "embd";
const COUNT_BYTES = 4;

/** Tokens by id, decoded only when asked for: the bytes stay as the file has them. */
export class TokenList implements ArrayValue {
  readonly type = "array";
  readonly elementType = "string";
  readonly length: number;
  readonly #bytes: Bytes;
  readonly #starts: Uint32Array<ArrayBuffer>;
  readonly #lengths: Uint32Array<ArrayBuffer>;

  /** `starts` and `lengths` must lie inside `bytes`. */
  constructor(bytes: Bytes, starts: Uint32Array<ArrayBuffer>, lengths: Uint32Array<ArrayBuffer>) {
    this.length = starts.length;
    this.#bytes = bytes;
    this.#starts = starts;
    this.#lengths = lengths;
  }

  slice(start = 0, end: number = this.length): MetadataValue[] {
    const [from, to] = [bound(start, this.length), bound(end, this.length)];
    const tokens: MetadataValue[] = [];
    for (let id = from; id < to; id++) tokens.push(textValue(this.bytes(id)));
    return tokens;
  }

  /** The stored bytes of one token. */
  bytes(id: number): Bytes {
    const start = this.#starts[id] ?? 0;
    return this.#bytes.subarray(start, start + (this.#lengths[id] ?? 0));
  }

  /** Undefined where the bytes are not UTF-8. */
  text(id: number): string | undefined {
    return decodeUtf8(this.bytes(id));
  }

  /** The id of a token, the last one where several are equal; undefined where there is none. */
  find(token: string): number | undefined {
    for (let id = this.length - 1; id >= 0; id--) {
      // Every byte of the token is at most three per code unit; most tokens differ in length already.
      const byteLength = this.#lengths[id] as number;
      if (byteLength >= token.length && byteLength <= 3 * token.length && this.text(id) === token) return id;
    }
    return undefined;
  }

  /** Undefined where a token is too long for the section's 16-bit lengths. */
  get encoded(): EncodedValue | undefined {
    const entries = this.encodeEntries();
    if (entries === undefined) return undefined;
    const writer = new ByteWriter(COUNT_BYTES + entries.byteLength);
    writer.u32(this.length);
    writer.bytes(entries);
    return { encoding: ENCODING, bytes: writer.take() };
  }

  /** Token entries as the vocabulary section has them; undefined where a token is too long. */
  encodeEntries(): Bytes | undefined {
    let total = 0;
    for (const length of this.#lengths) {
      if (length > MAX_TEXT_BYTES) return undefined;
      total += TOKEN_HEADER_BYTES + length;
    }
    const writer = new ByteWriter(total);
    for (let id = 0; id < this.length; id++) {
      const token = this.bytes(id);
      writer.u16(token.byteLength);
      writer.bytes(token);
    }
    return writer.take();
  }
}

function bound(index: number, length: number): number {
  return Math.min(Math.max(index < 0 ? index + length : index, 0), length);
}

/** What a walk over token entries found. */
export interface TokenWalk {
  readonly tokens: TokenList;
  /** Behind the last entry, in `bytes`. */
  readonly end: number;
}

/** Walks `count` entries of 16-bit length and text; undefined, and where it failed, if one runs over the end. */
export function walkTokens(bytes: Bytes, start: number, count: number): TokenWalk | { readonly failedAt: number } {
  if (count * TOKEN_HEADER_BYTES > bytes.byteLength - start) return { failedAt: start };
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const starts = new Uint32Array(count);
  const lengths = new Uint32Array(count);
  let position = start;
  for (let id = 0; id < count; id++) {
    if (position + TOKEN_HEADER_BYTES > bytes.byteLength) return { failedAt: position };
    const length = view.getUint16(position, true);
    const end = position + TOKEN_HEADER_BYTES + length;
    if (end > bytes.byteLength) return { failedAt: position };
    starts[id] = position + TOKEN_HEADER_BYTES;
    lengths[id] = length;
    position = end;
  }
  return { tokens: new TokenList(bytes, starts, lengths), end: position };
}

/** Decodes a vocabulary that `tare.origin` carried; undefined where it is not ours or damaged. */
export function decodeTokens({ encoding, bytes }: EncodedValue): MetadataValue | undefined {
  if (encoding !== ENCODING || bytes.byteLength < COUNT_BYTES) return undefined;
  const count = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const walk = walkTokens(bytes, COUNT_BYTES, count);
  return "tokens" in walk && walk.end === bytes.byteLength ? (walk.tokens as MetadataValue) : undefined;
}
