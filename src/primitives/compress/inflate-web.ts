import type { Bytes } from "../../base/bytes.ts";
import { boundedInflate, type Inflate } from "./inflate.ts";

/** Browsers and Node have this class; our type library has it under another name. */
type RawDecompression = new (
  format: "deflate-raw",
) => { readonly readable: ReadableStream<Bytes>; readonly writable: WritableStream<Bytes> };

/** The host's DecompressionStream. Rejects if there is none, or if it does not know raw deflate. */
export async function loadInflateWeb(): Promise<Inflate> {
  const Decompression = (globalThis as { DecompressionStream?: RawDecompression }).DecompressionStream;
  if (Decompression === undefined) throw new Error("no DecompressionStream here");
  new Decompression("deflate-raw");
  return (pieces, options) => boundedInflate(decode(new Decompression("deflate-raw"), pieces), options);
}

async function* decode(
  { readable, writable }: InstanceType<RawDecompression>,
  pieces: AsyncIterable<Bytes>,
): AsyncGenerator<Bytes> {
  const reader = readable.getReader();
  const feeding = feed(writable.getWriter(), pieces);
  feeding.catch(() => undefined); // awaited below, when the reader has nothing more
  try {
    for (;;) {
      const { done, value } = await readOrCause(reader, feeding);
      if (done) break;
      yield value as Bytes;
    }
    await feeding;
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

async function feed(writer: WritableStreamDefaultWriter<Bytes>, pieces: AsyncIterable<Bytes>): Promise<void> {
  try {
    for await (const piece of pieces) await writer.write(piece);
    await writer.close();
  } catch (error) {
    await writer.abort(error).catch(() => undefined);
    throw error;
  }
}

/** If the pieces fail, throws their error, not the one that the stream makes of it. */
async function readOrCause(
  reader: ReadableStreamDefaultReader<Bytes>,
  feeding: Promise<void>,
): Promise<ReadableStreamReadResult<Bytes>> {
  try {
    return await reader.read();
  } catch (error) {
    await feeding;
    throw error;
  }
}
