import { type Bytes, equalBytes } from "../../base/bytes.ts";
import { FormatError, isTareError, LimitError, type Location, type TareError, UsageError } from "../../base/errors.ts";
import { decodeHex } from "../../base/hex.ts";
import { encodeUtf8 } from "../../base/text.ts";
import type { ZstdDecompressOptions } from "../engine.ts";
import { decodeZstdFrame, MAX_BLOCK_BYTES, type ZstdFrame } from "./zstd-frame.ts";

/** A frame whose headers were checked, and what may come out of it. */
export interface ZstdTarget {
  readonly frame: ZstdFrame;
  readonly at: Location;
  /** The output is never longer. */
  readonly maxBytes: number;
  /** The error for an output that would be. */
  tooLong(found: string): TareError;
}

/** One implementation of zstd, on the calling thread. */
export interface ZstdCodec {
  /** One frame that declares its size, without checksum and dictionary. */
  compress(bytes: Bytes, level: number): Bytes | Promise<Bytes>;
  /**
   * Decodes a frame that cannot regenerate more than `target.maxBytes` and two blocks. May throw anything: what is
   * wrong with the frame is found out by the plain TypeScript decoder.
   */
  decompress(bytes: Bytes, target: ZstdTarget): Bytes | Promise<Bytes>;
}

/** The level of AERO metadata, and of everything that does not ask for another. */
export const DEFAULT_LEVEL = 6;

/** What a fast decoder may regenerate beyond the limit before the result is refused. */
const SLACK_BYTES = 2 * MAX_BLOCK_BYTES;

/**
 * Decodes the one frame that `bytes` must be. What it declares is checked before anything is decoded. A frame whose
 * blocks could regenerate much more than it may goes to the plain TypeScript decoder, which stops at the limit; so does
 * one on which `codec` fails, so that the error and its place are the same whatever decodes.
 */
export async function decompressZstd(codec: ZstdCodec, bytes: Bytes, options: ZstdDecompressOptions): Promise<Bytes> {
  const target = planDecompression(bytes, options);
  const content = await decode(codec, bytes, target);
  if (content.byteLength > target.maxBytes) throw target.tooLong(`${content.byteLength}`);
  checkSize(content.byteLength, target.frame.contentBytes, target.at);
  checkSize(content.byteLength, options.exactBytes, target.at);
  return content;
}

/** True where the codec gives back what a frame of libzstd holds, and its own frame. */
export async function provesZstd(codec: ZstdCodec): Promise<boolean> {
  const frame = decodeHex(KNOWN_FRAME) ?? new Uint8Array(0);
  const expected = knownContent();
  const own = await codec.compress(expected, DEFAULT_LEVEL);
  for (const bytes of [frame, own]) {
    // Not by `decompressZstd`: that would cover up for a decoder that fails.
    const content = await codec.decompress(bytes, planDecompression(bytes, { maxBytes: expected.byteLength }));
    if (!equalBytes(content, expected)) return false;
  }
  return true;
}

async function decode(codec: ZstdCodec, bytes: Bytes, target: ZstdTarget): Promise<Bytes> {
  if (isBounded(target)) {
    try {
      return await codec.decompress(bytes, target);
    } catch (error) {
      if (isTareError(error)) throw error; // the TypeScript decoder itself
    }
  }
  const { zstdJavascript } = await import("./zstd-javascript.ts");
  return zstdJavascript.decompress(bytes, target);
}

function planDecompression(bytes: Bytes, options: ZstdDecompressOptions): ZstdTarget {
  const { exactBytes, at = { source: "memory", offset: 0 } } = options;
  if (!(options.maxBytes >= 0)) {
    const message = `Cannot decompress zstd: maxBytes must be >= 0, found ${options.maxBytes}`;
    throw new UsageError("usage/zstd.limit", message, at);
  }
  const frame = decodeZstdFrame(bytes, at);
  const { contentBytes, minContentBytes, maxContentBytes } = frame;
  const wanted = exactBytes ?? contentBytes ?? minContentBytes;
  if (wanted > options.maxBytes) throw outputLimit(options.maxBytes, `${wanted}`, at);
  checkSize(contentBytes, exactBytes, at);
  // A size that the blocks cannot give is refused before anyone allocates it.
  const size = exactBytes ?? contentBytes;
  if (size !== undefined && size > maxContentBytes) throw sizeFault(size, `at most ${maxContentBytes}`, at);
  if (size !== undefined && size < minContentBytes) throw sizeFault(size, `at least ${minContentBytes}`, at);
  const tooLong = (found: string): TareError =>
    size === undefined ? outputLimit(options.maxBytes, found, at) : sizeFault(size, found, at);
  return { frame, at, maxBytes: size ?? options.maxBytes, tooLong };
}

/** Decoders that allocate ahead take the declared size, or a full block for every block of the frame. */
function isBounded({ frame, maxBytes }: ZstdTarget): boolean {
  if (frame.contentBytes !== undefined) return true;
  return frame.blockCount * Math.min(frame.windowBytes, MAX_BLOCK_BYTES) <= maxBytes + SLACK_BYTES;
}

function checkSize(found: number | undefined, wanted: number | undefined, at: Location): void {
  if (found !== undefined && wanted !== undefined && found !== wanted) throw sizeFault(wanted, `${found}`, at);
}

function sizeFault(wanted: number, found: string, at: Location): FormatError {
  return new FormatError("format/zstd.size", `Cannot decompress zstd: must give ${wanted} bytes, found ${found}`, at);
}

function outputLimit(maxBytes: number, found: string, at: Location): LimitError {
  const message = `Cannot decompress zstd: must give <= ${maxBytes} bytes, found ${found}`;
  return new LimitError("limit/zstd.output", message, at, { hint: "Raise the limit only if you trust this file" });
}

/** What libzstd 1.5.7 makes of `knownContent()` at level 6: Huffman-coded literals and FSE-coded sequences. */
const KNOWN_FRAME =
  "28b52ffd609000c5030022850f13b0a70d000811c46e6a58556477f74eb9bec3f1a49e69daab8fbab67bcba847b657dea18d" +
  "7ee8d4b293599dc6a7bfb5c4cae50480600ef22b05610ce60424a861545df7df0043a33a1046ac7c586806a1b75921133c6b" +
  "1edee7d591d9aca8cb390e022b09b6072f7ddff90cda781ae3e28511f82a";

/** 400 characters of words and numbers in an order that a small generator gives. */
function knownContent(): Bytes {
  const words = ["tensor", "weight", "layer", "bias", "attn", "norm", "proj", "embed"];
  let text = "";
  for (let x = 1; text.length < 400; ) {
    x = (x * 1103 + 12345) & 0xffff;
    text += `${words[x & 7]}.${x >> 8} `;
  }
  return encodeUtf8(text.slice(0, 400));
}
