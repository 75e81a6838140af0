import { type Bytes, concatBytes, EMPTY_BYTES, equalBytes } from "../../base/bytes.ts";
import { FormatError, isTareError, LimitError, type Location } from "../../base/errors.ts";
import { decodeHex, encodeUtf8 } from "../../base/text.ts";

export interface InflateOptions {
  /** LimitError `limit/deflate.output` beyond this. Memory stays far below it. */
  readonly maxBytes: number;
  /** Where the stream's first byte is, for errors. */
  readonly at: Location;
}

/**
 * Decodes one raw deflate stream (RFC 1951) that comes in pieces, and reads it only as fast as the result is read.
 * FormatError `format/deflate.stream` if the stream is damaged, cut short or followed by other bytes. Errors of the
 * pieces pass through.
 */
export type Inflate = (pieces: AsyncIterable<Bytes>, options: InflateOptions) => AsyncGenerator<Bytes>;

/** For decoders of the host: refuses output beyond the limit, and turns foreign errors into ours. */
export async function* boundedInflate(
  decoded: AsyncIterable<Bytes>,
  { maxBytes, at }: InflateOptions,
): AsyncGenerator<Bytes> {
  let total = 0;
  try {
    for await (const piece of decoded) {
      total += piece.byteLength;
      if (total > maxBytes) throw tooLong(maxBytes, at);
      yield piece;
    }
  } catch (error) {
    if (isTareError(error) || isAbort(error)) throw error;
    throw badDeflate("it is damaged, cut short, or has something after it", at, error);
  }
}

export function badDeflate(problem: string, at: Location, cause?: unknown): FormatError {
  return new FormatError("format/deflate.stream", `Cannot decompress deflate stream: ${problem}`, at, { cause });
}

export function tooLong(maxBytes: number, at: Location): LimitError {
  const message = `Cannot decompress deflate stream: must give at most ${maxBytes} bytes, found more`;
  return new LimitError("limit/deflate.output", message, at);
}

/** An abort passes through, for the caller that gave the signal. */
function isAbort(error: unknown): boolean {
  return error instanceof Error && error.name === "AbortError";
}

/** A block with fixed codes, a stored one, and one with its own codes. zlib made the first and the last. */
const ANSWERS = [
  { hex: "4b4c4a4e040220094600", text: "abcaaaabcabcabc" },
  { hex: "010300fcff616263", text: "abc" },
  {
    hex: "85cbbb0d80300c05c03e5378001af2f7384432a2b0880491589f015ef1ead3a9ca986bb9bd324f19668fcc5bd665f21dee9b2878d04e4ac7d24869582a29154b21a560c9a4642c899484259212b1eca480871f",
    text: Array.from(
      { length: 9 },
      (_, i) => `${99 - i} bottles of beer on the wall, ${99 - i} bottles of beer\n`,
    ).join(""),
  },
] as const;

/** True if known streams decode, however they are cut into pieces, and short ones or ones with an extra byte do not. */
export async function provesInflate(inflate: Inflate): Promise<boolean> {
  for (const { hex, text } of ANSWERS) {
    const stream = decodeHex(hex) ?? EMPTY_BYTES;
    for (const step of [1, stream.byteLength]) {
      if (!equalBytes(await collect(inflate, stream, step), encodeUtf8(text))) return false;
    }
    // DecompressionStream of Node 20 ignores bytes after the end.
    for (const bad of [stream.subarray(0, -1), concatBytes([stream, Uint8Array.of(0)])]) {
      const found = await collect(inflate, bad, bad.byteLength).catch(() => undefined);
      if (found !== undefined) return false;
    }
  }
  return true;
}

async function collect(inflate: Inflate, stream: Bytes, step: number): Promise<Bytes> {
  const pieces = async function* (): AsyncGenerator<Bytes> {
    for (let at = 0; at < stream.byteLength; at += step) yield stream.slice(at, at + step);
  };
  const found: Bytes[] = [];
  const options = { maxBytes: 4096, at: { source: "engine" } };
  for await (const piece of inflate(pieces(), options)) found.push(piece.slice());
  return concatBytes(found);
}
