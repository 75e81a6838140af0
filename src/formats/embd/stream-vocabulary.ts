import type { Bytes } from "../../base/bytes.ts";
import { FormatError, type Location } from "../../base/errors.ts";
import { checkLimit } from "../../base/limits.ts";
import type { Source } from "../../bytes/source.ts";
import type { EmbdLimits } from "./limits.ts";
import { specialsByText } from "./special-tokens.ts";
import { TokenList } from "./token-list.ts";
import type { Tolerance } from "./tolerance.ts";
import type { VocabularySection } from "./vocabulary-section.ts";

/** The list at the end of a stream. */
export interface StreamVocabulary extends VocabularySection {
  readonly offset: number;
  /** Behind the last token. */
  readonly end: number;
}

interface VocabularyContext {
  readonly limits: EmbdLimits;
  readonly tolerance: Tolerance;
  readonly signal: AbortSignal | undefined;
}

const LENGTH_BYTES = 4;
/** The original library refuses more. */
const ORIGINAL_TOKENS = 100_000;
const CUT = "The file was cut short: download or copy it again";

/** Reads the tokens, from `offset` to the end of the file. Special ids come from how tokens are written. */
export async function readStreamVocabulary(
  source: Source,
  offset: number,
  { limits, tolerance, signal }: VocabularyContext,
): Promise<StreamVocabulary> {
  const room = source.byteLength - offset;
  const at: Location = { source: source.label, offset, path: "vocab_count" };
  if (room < LENGTH_BYTES) {
    const message = `Cannot read EMBD stream: vocab_count must follow at ${offset}, found ${room} bytes`;
    throw new FormatError("format/embd.truncated", message, at, { hint: CUT });
  }
  checkLimit(room, limits.vocabularyBytes, "EMBD vocabulary bytes", "limit/embd.vocabulary-bytes", at);
  const bytes = await source.read(offset, room, { signal });
  const count = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  if (count * LENGTH_BYTES > room - LENGTH_BYTES) {
    const message = `Cannot read EMBD stream: ${count} tokens need at least ${count * LENGTH_BYTES} bytes, found ${room - LENGTH_BYTES}`;
    throw new FormatError("format/embd.truncated", message, at, { hint: CUT });
  }
  checkLimit(count, limits.tokens, "EMBD tokens", "limit/embd.tokens", at);
  const { tokens, end } = walk(bytes, count, { ...at, maxBytes: limits.streamTextBytes });
  if (count > ORIGINAL_TOKENS) {
    const message = `The vocabulary has ${count} tokens: the original library refuses more than ${ORIGINAL_TOKENS}`;
    tolerance.warnings.push({ severity: "note", code: "format/embd.vocabulary-size", message, at });
  }
  if (end < room) {
    const where = { source: source.label, offset: offset + end, path: "vocab" };
    const message = `The file must end with its vocabulary: found ${room - end} bytes after it`;
    tolerance.warn(new FormatError("format/embd.trailing-bytes", message, where));
  }
  return { tokens, special: specialsByText(tokens), offset, end: offset + end };
}

function walk(
  bytes: Bytes,
  count: number,
  place: Location & { readonly maxBytes: number },
): { readonly tokens: TokenList; readonly end: number } {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const starts = new Uint32Array(count);
  const lengths = new Uint32Array(count);
  let position = LENGTH_BYTES;
  for (let id = 0; id < count; id++) {
    const left = bytes.byteLength - position - LENGTH_BYTES;
    const length = left < 0 ? 0 : view.getUint32(position, true);
    if (left < length) {
      const at = { source: place.source, offset: (place.offset ?? 0) + position, path: `vocab[${id}]` };
      const message = `Cannot read EMBD stream: token ${id} must have ${length} bytes, found ${Math.max(0, left)}`;
      throw new FormatError("format/embd.truncated", message, at, { hint: CUT });
    }
    if (length > place.maxBytes) {
      const at = { source: place.source, offset: (place.offset ?? 0) + position, path: `vocab[${id}]` };
      checkLimit(length, place.maxBytes, "EMBD token bytes", "limit/embd.text-bytes", at);
    }
    starts[id] = position + LENGTH_BYTES;
    lengths[id] = length;
    position += LENGTH_BYTES + length;
  }
  return { tokens: new TokenList(bytes, starts, lengths), end: position };
}
