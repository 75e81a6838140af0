import { type Bytes, EMPTY_BYTES } from "../../../base/bytes.ts";
import { sliceSource } from "../../../bytes/slice.ts";
import type { Source } from "../../../bytes/source.ts";
import type { WriteContext } from "../../../model/format.ts";
import { writePieces } from "../../../model/pieces.ts";
import { Tensor } from "../../../model/tensor.ts";
import { type ChunkContext, compareHash, decodeChunk } from "../chunks/chunk.ts";
import { type Chunk, chunkTitle, isCompressed } from "../chunks/toc.ts";
import type { AeroImage } from "../plan.ts";
import type { SeekableSink } from "./shards.ts";
import { HashingSink, RunDigests } from "./shards.ts";

/** Shorter chunks are read whole: a file may have a hundred thousand of them. */
const SHORT_BYTES = 64 << 10;

/**
 * Appends chunks of unknown types as stored, after the shards. Hashes their content on the way and compares it with the
 * source's digest: a damaged chunk must not get a digest that makes it look sound.
 */
export async function writeCarried(image: AeroImage, sink: SeekableSink, context: WriteContext): Promise<void> {
  const { carried } = image;
  if (carried === undefined) return;
  const places = image.layout.chunks.filter(({ role }) => role === "carried");
  const { source, toc, limits } = carried.from;
  const { engine, signal } = context;
  const reading: ChunkContext = { toc, limits, label: source.label, engine, signal };
  for (const [i, { chunk }] of carried.chunks.entries()) {
    sink.reserve((places[i]?.offset ?? sink.position) - sink.position);
    const digest = isShort(chunk)
      ? await copyWhole(source, chunk, { sink, reading })
      : await copyStream(source, chunk, { sink, context });
    const damage = compareHash(chunk, digest, reading);
    if (damage !== undefined) throw damage;
  }
}

function isShort(chunk: Chunk): boolean {
  // A compressed chunk has the digest of its content, so it is read whole, up to a limit.
  return isCompressed(chunk) || chunk.byteLength <= SHORT_BYTES;
}

async function copyWhole(
  source: Source,
  chunk: Chunk,
  { sink, reading }: { readonly sink: SeekableSink; readonly reading: ChunkContext },
): Promise<Bytes> {
  const { offset, byteLength } = chunk;
  const stored = byteLength === 0 ? EMPTY_BYTES : await source.read(offset, byteLength, { signal: reading.signal });
  const content = await decodeChunk(chunk, stored, reading);
  const digest = await reading.engine.digest("blake3", content);
  if (byteLength > 0) await sink.append(stored);
  return digest;
}

async function copyStream(
  source: Source,
  chunk: Chunk,
  { sink, context }: { readonly sink: SeekableSink; readonly context: WriteContext },
): Promise<Bytes> {
  const { offset, byteLength } = chunk;
  const facts = { name: chunkTitle(chunk), dtype: "U8", shape: [byteLength], byteLength, offset } as const;
  const tensor = new Tensor(facts, { source: () => sliceSource(source, offset, byteLength) });
  const whole = new RunDigests(context.engine, [{ offset: 0, byteLength }]);
  const hashing = new HashingSink(sink, [whole]);
  await writePieces([{ kind: "tensor", tensor }], hashing, { ...context, onProgress: undefined });
  await hashing.settled();
  const [digest] = await whole.finish();
  return digest as Bytes;
}
