import type { Bytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import type { ZstdCompressOptions } from "../engine.ts";
import { DEFAULT_LEVEL, type ZstdCodec } from "./zstd.ts";

/** Levels of libzstd without its negative ones. */
const MAX_LEVEL = 22;

export async function compressZstd(codec: ZstdCodec, bytes: Bytes, options: ZstdCompressOptions): Promise<Bytes> {
  const level = options.level ?? DEFAULT_LEVEL;
  if (Number.isInteger(level) && level >= 1 && level <= MAX_LEVEL) return codec.compress(bytes, level);
  const message = `Cannot compress with zstd: level must be a whole number 1 … ${MAX_LEVEL}, found ${level}`;
  throw new UsageError("usage/zstd.level", message, { source: "zstd" });
}
