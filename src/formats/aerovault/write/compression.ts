import { type Bytes, concatBytes } from "../../../base/bytes.ts";

/** One zstd frame of these bytes. */
export type Compress = (bytes: Bytes, level: number) => Promise<Bytes>;

/** What becomes of a chunk before it is encrypted. */
export interface CompressedChunk {
  /** A zstd frame, or the chunk itself. */
  readonly payload: Bytes;
  readonly storedRaw: boolean;
}

/** How a vault compresses one chunk after another. */
export interface ChunkCompressor {
  compress(chunk: Bytes): Promise<CompressedChunk>;
}

/** The level that the probe uses, and the one that costs least where a higher one gains nothing. */
const PROBE_LEVEL = 3;
/** The reference's probe looks at so much of a longer chunk, in windows spread over it (dossier 3.4). */
const PROBE_BYTES = 1 << 20;
const PROBE_WINDOWS = 16;
const WINDOW_BYTES = 64 << 10;
/** A chunk that shrinks to no less than this many hundredths is stored as it is (dossier 3.4). */
const RAW_PERCENT = 97;
/** A higher level must make the sample this many hundredths smaller than level 3 does (dossier 15). */
const GAIN_PERCENT = 3;
/** A chunk whose level-3 ratio is this near to that of the last sampled one is taken to be of the same kind. */
const SAME_KIND = 0.01;

/** As the reference does it: probe, then the vault's level for every chunk that passes (dossier 3.4). */
export function referenceCompressor(compress: Compress, level: number): ChunkCompressor {
  return {
    async compress(chunk) {
      const sample = probeSample(chunk);
      const probed = await compress(sample, PROBE_LEVEL);
      if (probed.byteLength * 100 >= sample.byteLength * RAW_PERCENT) return { payload: chunk, storedRaw: true };
      const isDone = level === PROBE_LEVEL && sample === chunk;
      return smaller(chunk, isDone ? probed : await compress(chunk, level));
    },
  };
}

/**
 * The vault's level only where it pays (dossier 15): every chunk is compressed at level 3, which also shows whether it can be
 * compressed at all, and again at the vault's level where a sample of 64 KiB becomes 3 % smaller by it.
 */
export function adaptiveCompressor(compress: Compress, level: number): ChunkCompressor {
  let judged: { readonly ratio: number; readonly gains: boolean } | undefined;
  return {
    async compress(chunk) {
      const quick = await compress(chunk, Math.min(level, PROBE_LEVEL));
      if (quick.byteLength * 100 >= chunk.byteLength * RAW_PERCENT) return { payload: chunk, storedRaw: true };
      if (level <= PROBE_LEVEL) return { payload: quick, storedRaw: false };
      const ratio = quick.byteLength / chunk.byteLength;
      if (judged === undefined || Math.abs(judged.ratio - ratio) > SAME_KIND) {
        judged = { ratio, gains: await levelGains(compress, chunk, level) };
      }
      if (!judged.gains) return { payload: quick, storedRaw: false };
      const slow = await compress(chunk, level);
      return { payload: slow.byteLength < quick.byteLength ? slow : quick, storedRaw: false };
    },
  };
}

async function levelGains(compress: Compress, chunk: Bytes, level: number): Promise<boolean> {
  const start = Math.floor(Math.max(0, chunk.byteLength - WINDOW_BYTES) / 2);
  const sample = chunk.subarray(start, start + WINDOW_BYTES);
  const quick = await compress(sample, PROBE_LEVEL);
  const slow = await compress(sample, level);
  return slow.byteLength * 100 <= quick.byteLength * (100 - GAIN_PERCENT);
}

/** The whole chunk, or windows spread evenly over a longer one; window 15 ends where the chunk does. */
function probeSample(chunk: Bytes): Bytes {
  if (chunk.byteLength <= PROBE_BYTES) return chunk;
  const windows: Bytes[] = [];
  for (let i = 0; i < PROBE_WINDOWS; i++) {
    const start = Math.floor((i * (chunk.byteLength - WINDOW_BYTES)) / (PROBE_WINDOWS - 1));
    windows.push(chunk.subarray(start, start + WINDOW_BYTES));
  }
  return concatBytes(windows);
}

function smaller(chunk: Bytes, frame: Bytes): CompressedChunk {
  if (frame.byteLength < chunk.byteLength) return { payload: frame, storedRaw: false };
  return { payload: chunk, storedRaw: true };
}
